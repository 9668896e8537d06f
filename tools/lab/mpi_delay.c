/*
 * For mpi.py: makes MPI as slow as a network, by the profiling interface of the standard. A message
 * of n bytes takes LATENCY + n / BANDWIDTH (environment: microseconds, MB/s). A sum or a broadcast
 * takes log2(number of processes) messages, one after another.
 */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void pass_time(int messages, int count, MPI_Datatype type)
{
    int size;
    PMPI_Type_size(type, &size);
    double us = atof(getenv("LATENCY")) + (double)count * size / atof(getenv("BANDWIDTH")),
           end = now() + messages * us * 1e-6;
    while (now() < end)
        ;
}

static int doublings(MPI_Comm comm)
{
    int size, n = 0;
    PMPI_Comm_size(comm, &size);
    while (1 << n < size)
        n++;
    return n;
}

int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm)
{
    int error = PMPI_Allreduce(from, to, count, type, op, comm);
    pass_time(doublings(comm), count, type);
    return error;
}

int MPI_Bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    int error = PMPI_Bcast(data, count, type, root, comm);
    pass_time(doublings(comm), count, type);
    return error;
}

int MPI_Recv(void *to, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
             MPI_Status *status)
{
    int error = PMPI_Recv(to, count, type, from, tag, comm, status);
    pass_time(1, count, type);
    return error;
}
