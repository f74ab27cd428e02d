"""``python -m understudy``: the command, where its script is not on the path."""

from understudy.cli.main import main

if __name__ == "__main__":
    main()
