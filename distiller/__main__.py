"""`python -m distiller` is the same program as `distiller`."""

from distiller.surfaces.cli import main

if __name__ == "__main__":
    main()
