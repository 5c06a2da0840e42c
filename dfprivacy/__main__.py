"""Run the command line: `python -m dfprivacy` is `dfprivacy`."""

from dfprivacy.cli import main

if __name__ == "__main__":
    main()
