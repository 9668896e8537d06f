#!/usr/bin/env python3
"""How fast processes of mpirun are together, beside one process with as many threads:

    tools/lab/mpi.py MODEL [-n PROCESSES] [-r ROUNDS] [--latency US --bandwidth MB/S]

Each round measures both with `tuffet bench`, one after the other. Prints Markdown: medians of the
rounds, and the median of the ratios with its range. --latency and --bandwidth make messages as slow
as those of a network (mpi_delay.c): then what is printed is what a token takes longer than without.
"""
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

from measure import arguments_of, print_row, print_titles


def arguments():
    p = arguments_of(__doc__)
    p.add_argument("-n", type=int, default=2, help="processes (2)")
    p.add_argument("-r", type=int, default=5, help="rounds (5)")
    p.add_argument("--prompt", default="512", help="tokens of the prompt (512)")
    p.add_argument("--decode", default="48", help="tokens to generate (48)")
    p.add_argument("--latency", type=float, help="microseconds of a message")
    p.add_argument("--bandwidth", type=float, default=118, help="MB/s of a message (118)")
    p.add_argument("--plugin", default="build/test/src/backend/mpi",
                   help="folder of libtuffet-mpi.so")
    return p.parse_args()


def bench(a, threads, *launcher):
    """tokens/s of the prompt, and of generating."""
    env = {**os.environ, "LD_LIBRARY_PATH": a.plugin, "LATENCY": str(a.latency),
           "BANDWIDTH": str(a.bandwidth)}
    command = [*launcher, a.tuffet, "bench", a.model, "-t", str(threads), "-p", a.prompt, "-n",
               a.decode, "-r", "1", "--json"]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True)
    found = json.loads(done.stdout)
    return [row["tok_s"] for row in found["rows"][-2:]]


def processes(a, *options):
    return bench(a, 1, "mpirun", "-n", str(a.n), "--bind-to", "none", *options)


def beside_threads(a):
    rounds = [(bench(a, a.n), processes(a)) for _ in range(a.r)]
    print_titles(["tokens/s"], [f"1 process, {a.n} threads", f"{a.n} processes, 1 thread each",
                                "ratio"])
    for i, what in enumerate(["prompt", "generating"]):
        threads, together = ([r[side][i] for r in rounds] for side in (0, 1))
        ratios = [y / x for x, y in zip(threads, together)]
        print_row(what, f"{statistics.median(threads):.1f}", f"{statistics.median(together):.1f}",
                  f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


def on_a_network(a):
    source = pathlib.Path(__file__).with_name("mpi_delay.c")
    with tempfile.TemporaryDirectory() as folder:
        shim = os.path.join(folder, "delay.so")
        subprocess.run(["mpicc", "-O2", "-shared", "-fPIC", source, "-o", shim], check=True)
        rounds = [(processes(a)[1], processes(a, "-x", f"LD_PRELOAD={shim}")[1])
                  for _ in range(a.r)]
    quick, slow = (statistics.median(r[side] for r in rounds) for side in (0, 1))
    print_titles([], ["tokens/s", "on the network", "ms a token more"])
    print_row(f"{quick:.1f}", f"{slow:.1f}", f"{1000 / slow - 1000 / quick:.2f}")


def main():
    a = arguments()
    if a.latency is None:
        beside_threads(a)
    else:
        on_a_network(a)


if __name__ == "__main__":
    main()
