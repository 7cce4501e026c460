"""The entry point. Answers ``--version`` itself: what else it imports, that command pays for."""

import sys


def main() -> int:
    """Run the command line; the exit status is in iqaction.cli."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from iqaction import __version__  # noqa: PLC0415 - see above

        sys.stdout.write(f"iqaction {__version__}\n")
        return 0
    from iqaction.cli import entry  # noqa: PLC0415

    return entry()


if __name__ == "__main__":
    sys.exit(main())
