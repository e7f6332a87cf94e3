"""``python -m slotscope COMMAND …``: the program ``slotscope``, in a clone and where it is installed."""

from jobs.main import main

if __name__ == "__main__":
    main()
