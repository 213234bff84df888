"""`python -m distiller` is the same program as `distiller`."""

import sys

from distiller.surfaces.cli import main

if __name__ == "__main__":
    sys.exit(main())
