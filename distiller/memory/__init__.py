"""Room 3: claims and questions in, plans and answers out."""
