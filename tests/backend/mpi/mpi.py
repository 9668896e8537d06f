"""Runs a program in 1, 2, 3 and 4 processes: mpi.py PROGRAM [ARGUMENT]..."""
import os
import shutil
import subprocess
import sys

mpirun = shutil.which("mpirun") or "mpirun"
# As root, as in a container; more processes than CPUs, where one that waits gives up its CPU; and
# shared memory without ptrace, which containers forbid. Open MPI does not look for networks, which
# takes 0.2 s, and kills what it ends at once, not after a second. Other MPIs do not look at these.
env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
       "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
       "OMPI_MCA_pml": "ob1", "OMPI_MCA_odls_base_sigkill_timeout": "0",
       # Open MPI leaks, and unloads what has leaked: a sanitizer cannot know it by its name.
       "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}


def run(n, command, patience=None):
    return subprocess.run([mpirun, "-n", str(n), *command], env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, timeout=patience)


def starts():
    """Whether mpirun starts processes here. Says so if it does not."""
    try:
        done = run(2, ["true"], patience=60)
    except FileNotFoundError:
        print("skipped: there is no mpirun")
        return False
    except subprocess.TimeoutExpired:
        print("skipped: mpirun has not started two processes within a minute")
        return False
    if done.returncode:
        print(f"skipped: mpirun does not start processes here:\n{done.stdout}")
    return done.returncode == 0


def main():
    if not starts():
        sys.exit(77)
    for count in 1, 2, 3, 4:
        done = run(count, sys.argv[1:])
        print(f"{count} processes: status {done.returncode}\n{done.stdout}")
        if done.returncode:
            sys.exit(1)


if __name__ == "__main__":
    main()
