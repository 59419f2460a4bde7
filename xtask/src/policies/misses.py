"""The other half of `cargo xtask policies`: what libcachesim misses of the same traces.

Arguments: the directory with the traces. On its input stand our lines, of which the first three words say what
to run: trace, slots, policy. For each it prints the number of misses. A block is one unit of size, and so is a
slot; every parameter is given, whatever the default is.
"""

import array
import os
import sys

import libcachesim

INITS = {
    "lru": libcachesim.LRU,
    "fifo": libcachesim.FIFO,
    "clock": lambda **size: libcachesim.Clock(init_freq=0, n_bit_counter=1, **size),
    "2q": lambda **size: libcachesim.TwoQ(a_in_size_ratio=0.25, a_out_size_ratio=0.5, **size),
    "arc": libcachesim.ARC,
    "lirs": libcachesim.LIRS,
    "s3-fifo": lambda **size: libcachesim.S3FIFO(
        small_size_ratio=0.1, ghost_size_ratio=0.9, move_to_main_threshold=2, **size
    ),
    "sieve": libcachesim.Sieve,
}


def blocks(path):
    numbers = array.array("Q")
    with open(path, "rb") as file:
        numbers.frombytes(file.read())
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def misses(policy, slots, trace):
    cache = INITS[policy](cache_size=slots, hashpower=12)
    request = libcachesim.Request()
    request.obj_size = 1
    missed = 0
    for block in trace:
        # It has no use for 0.
        request.obj_id = block + 1
        missed += not cache.get(request)
    return missed


def main():
    traces = {}
    for line in sys.stdin:
        name, slots, policy = line.split()[:3]
        if name not in traces:
            traces[name] = blocks(os.path.join(sys.argv[1], name))
        print(misses(policy, int(slots), traces[name]), flush=True)


main()
