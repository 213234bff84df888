"""Session files of coding agents in, a few durable facts out. Start reading at `service/distill_turn.py`."""
