"""regretless against its peers: what each loses on the way, and what a suggestion costs.

    python -m benchmarks.peers --seeds 20      # from the root of the repository; resumable
    python -m benchmarks.peers --report        # docs/results/peers.md from whatever is recorded

`problems` says what is tuned, `tools` who tunes and how each is set up, `runs` makes one record per
run in a process of its own, `report` reads them.
"""
