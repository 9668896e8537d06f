/* The processes of a run, and their messages. */
#define _POSIX_C_SOURCE 200809L
#include "inside.h"

#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "port/port.h"

/* MPI can be initialized once in a process, so it runs until the process ends. If the caller
   initialized MPI, the caller ends it. */
static void end_mpi(void)
{
    int ended = 0;
    MPI_Finalized(&ended);
    if (!ended)
        MPI_Finalize();
}

static enum tft_status begin_mpi(struct tft_error *err)
{
    int begun = 0, threads = MPI_THREAD_SINGLE;
    MPI_Initialized(&begun);
    if (begun)
        MPI_Query_thread(&threads);
    else if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &threads) != MPI_SUCCESS ||
             atexit(end_mpi) != 0)
        return tft_fail(err, TFT_ERR_DEVICE, "mpi: MPI_Init_thread failed");
    if (threads < MPI_THREAD_SERIALIZED)
        return tft_fail(err, TFT_ERR_DEVICE,
                        "mpi: MPI was begun without MPI_THREAD_SERIALIZED, which is needed");
    return TFT_OK;
}

/* Keeps the first error. */
static void note(struct link *link, int error)
{
    if (!link->error)
        link->error = error;
}

enum tft_status tft_mpi_join(struct link *link, struct tft_error *err)
{
    enum tft_status status = begin_mpi(err);
    *link = (struct link){.comm = MPI_COMM_NULL};
    if (status != TFT_OK)
        return status;
    note(link, MPI_Comm_dup(MPI_COMM_WORLD, &link->comm));
    if (!link->error)
        note(link, MPI_Comm_set_errhandler(link->comm, MPI_ERRORS_RETURN));
    if (!link->error)
        note(link, MPI_Comm_rank(link->comm, &link->rank));
    if (!link->error)
        note(link, MPI_Comm_size(link->comm, &link->size));
    return tft_mpi_status(link, err);
}

void tft_mpi_leave(struct link *link)
{
    if (link->comm != MPI_COMM_NULL)
        MPI_Comm_free(&link->comm);
}

enum tft_status tft_mpi_status(const struct link *link, struct tft_error *err)
{
    char why[MPI_MAX_ERROR_STRING] = "unknown error";
    int n;
    if (!link->error)
        return TFT_OK;
    MPI_Error_string(link->error, why, &n);
    return tft_fail(err, TFT_ERR_DEVICE, "mpi: process %d of %d: %.160s", link->rank, link->size,
                    why);
}

enum tft_status tft_mpi_agree(struct link *link, enum tft_status status, struct tft_error *err)
{
    int first = status == TFT_OK ? link->size : link->rank;
    struct {
        enum tft_status status;
        struct tft_error err;
    } told = {status, *err};
    if (!link->error)
        note(link, MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, link->comm));
    if (link->error)
        return tft_mpi_status(link, err);
    if (first == link->size)
        return TFT_OK;
    note(link, MPI_Bcast(&told, (int)sizeof told, MPI_BYTE, first, link->comm));
    if (link->error)
        return tft_mpi_status(link, err);
    *err = told.err;
    return told.status;
}

void tft_mpi_sum(struct link *link, int32_t *words, size_t n)
{
    for (size_t at = 0; at < n && !link->error; at += INT_MAX) {
        size_t count = n - at < INT_MAX ? n - at : INT_MAX;
        note(link, MPI_Allreduce(MPI_IN_PLACE, words + at, (int)count, MPI_INT32_T, MPI_SUM,
                                 link->comm));
    }
}

void tft_mpi_largest(struct link *link, float *numbers, size_t n)
{
    for (size_t at = 0; at < n && !link->error; at += INT_MAX) {
        size_t count = n - at < INT_MAX ? n - at : INT_MAX;
        note(link, MPI_Allreduce(MPI_IN_PLACE, numbers + at, (int)count, MPI_FLOAT, MPI_MAX,
                                 link->comm));
    }
}

void tft_mpi_spread(struct link *link, void *data, size_t bytes)
{
    for (size_t at = 0; at < bytes && !link->error; at += INT_MAX) {
        size_t count = bytes - at < INT_MAX ? bytes - at : INT_MAX;
        note(link, MPI_Bcast((char *)data + at, (int)count, MPI_BYTE, 0, link->comm));
    }
}

/* ---------------------------------------------------------------------------------------- calls */

enum { TAG_CALL = 1, TAG_LOGITS = 2 };

void tft_mpi_call(struct link *link, const void *call, size_t bytes)
{
    for (int r = 1; r < link->size && !link->error; r++)
        note(link, MPI_Send(call, (int)bytes, MPI_BYTE, r, TAG_CALL, link->comm));
}

/* The next call comes at once while tokens are generated, and after minutes in a chat. So a process
   polls for 2 ms, then once a millisecond. */
void tft_mpi_await(struct link *link, void *call, size_t bytes)
{
    const uint64_t busy_ns = 2000000;
    const struct timespec pause = {.tv_nsec = 1000000};
    uint64_t start = tft_port_ns();
    int there = 0;
    while (!link->error && !there) {
        note(link, MPI_Iprobe(0, TAG_CALL, link->comm, &there, MPI_STATUS_IGNORE));
        if (!there && tft_port_ns() - start > busy_ns)
            nanosleep(&pause, NULL);
        else if (!there)
            sched_yield();
    }
    if (!link->error)
        note(link, MPI_Recv(call, (int)bytes, MPI_BYTE, 0, TAG_CALL, link->comm,
                            MPI_STATUS_IGNORE));
}

/* --------------------------------------------------------------------------------------- logits */

void tft_mpi_gather(struct link *link, float *to, uint32_t width, const float *own, uint32_t n,
                    const uint32_t *ends)
{
    for (int r = 0; r < link->size; r++) {
        uint32_t from = r ? ends[r - 1] : 0, columns = ends[r] - from;
        for (size_t t = 0; t < n && columns && !link->error; t++) {
            float *row = link->rank ? NULL : to + t * width + from;
            if (r == 0 && link->rank == 0)
                memcpy(row, own + t * columns, columns * sizeof *row);
            else if (link->rank == 0)
                note(link, MPI_Recv(row, (int)columns, MPI_FLOAT, r, TAG_LOGITS, link->comm,
                                    MPI_STATUS_IGNORE));
            else if (link->rank == r)
                note(link, MPI_Send(own + t * columns, (int)columns, MPI_FLOAT, 0, TAG_LOGITS,
                                    link->comm));
        }
    }
}

void tft_mpi_send(struct link *link, const void *data, size_t bytes)
{
    if (!link->error)
        note(link, MPI_Send(data, (int)bytes, MPI_BYTE, 0, TAG_LOGITS, link->comm));
}

void tft_mpi_receive(struct link *link, int r, void *data, size_t bytes)
{
    if (!link->error)
        note(link, MPI_Recv(data, (int)bytes, MPI_BYTE, r, TAG_LOGITS, link->comm,
                            MPI_STATUS_IGNORE));
}
