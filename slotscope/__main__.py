"""``python -m slotscope COMMAND …``: the program ``slotscope``, in a clone and where it is installed."""

import sys

try:
    from jobs.main import main
except ModuleNotFoundError as error:
    sys.stderr.write(f"slotscope: the installation is incomplete: no package {error.name}; install slotscope again\n")
    sys.exit(2)

if __name__ == "__main__":
    main()
