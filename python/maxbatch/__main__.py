"""python -m maxbatch ... is the command maxbatch."""

from ._program import main

main()
