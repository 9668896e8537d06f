/*
 * What the files of the MPI backend share (docs/mpi.md). Several processes compute one model.
 * Process 0 has the model and the sessions of the caller. Every process, process 0 too, has its
 * *part*: a model with some of the heads, of the hidden activations and of the vocabulary, and for
 * each session of the caller a session of that part.
 */
#ifndef TFT_MPI_INSIDE_H
#define TFT_MPI_INSIDE_H

#include <mpi.h>
#include <pthread.h>

#include "backend/device.h"
#include "base/error.h"

/* ---- link.c: the processes */

struct link {
    MPI_Comm comm;
    int rank, size;
    int error; /* the first of MPI's that occurred; it stays. 0: none */
};

/* Meets the other processes. */
enum tft_status tft_mpi_join(struct link *link, struct tft_error *err);
void tft_mpi_leave(struct link *link);

/* The status that all processes return: TFT_OK if it is that of all. Otherwise the first process
   that failed gives its status and line to all. */
enum tft_status tft_mpi_agree(struct link *link, enum tft_status status, struct tft_error *err);

/* TFT_OK, or TFT_ERR_DEVICE with a line about link->error. */
enum tft_status tft_mpi_status(const struct link *link, struct tft_error *err);

/* words: [n] in every process = the sum, modulo 2^32, of those of all processes. */
void tft_mpi_sum(struct link *link, int32_t *words, size_t n);

/* numbers: [n] in every process = the largest of those of all processes. */
void tft_mpi_largest(struct link *link, float *numbers, size_t n);

/* Sends bytes from process 0 to all; `bytes` is the same in all. */
void tft_mpi_spread(struct link *link, void *data, size_t bytes);

/* Process 0 calls the others, which wait for a call without keeping their CPUs busy. */
void tft_mpi_call(struct link *link, const void *call, size_t bytes);
void tft_mpi_await(struct link *link, void *call, size_t bytes);

/* The processes' rows of logits, beside each other, become rows of process 0: to: [n, width], own:
   [n, columns of this process]. ends: [size] where the columns of each process end */
void tft_mpi_gather(struct link *link, float *to, uint32_t width, const float *own, uint32_t n,
                    const uint32_t *ends);

/* A process sends bytes to process 0. Process 0 receives bytes of process r. */
void tft_mpi_send(struct link *link, const void *data, size_t bytes);
void tft_mpi_receive(struct link *link, int r, void *data, size_t bytes);

/* ---- part.c: the part of a model that a process has */

/* Units from .. to - 1 of something that the processes share out. */
struct range {
    uint32_t from, to;
};

/*
 * The columns of a matrix that a process has, in pieces of at most TFT_MPI_PIECE columns: the float
 * that a kernel makes of a sum of so few products is exact, so it can be added to those of other
 * pieces and of other processes.
 */
enum { TFT_MPI_PIECE = 512 };
_Static_assert(255 * 127 * TFT_MPI_PIECE < 1 << 24, "a float holds every sum");

struct columns {
    uint32_t n;
    struct tft_mat *piece; /* [n] each with all rows, and scales of 1 */
};

struct part {
    struct link link;
    struct tft_model m;      /* of the ranges below */
    struct range kv, vocab;  /* KV heads; rows of the embedding and of the head */
    struct columns *o, *down; /* [n_layer] */
    uint32_t *vocab_ends;    /* [link.size] where the vocabulary of each process ends */
    void *memory;            /* all of these arrays */

    size_t most; /* the largest k for which only the k largest logits are sent; else all are */
    struct likeliest *likeliest; /* the message with them, as it is sent or received */
};

/* Cuts `whole` into the part of process part->link.rank. */
enum tft_status tft_mpi_cut(struct part *part, const struct tft_model *whole,
                            struct tft_error *err);

/* ---- logits.c: messages with the largest logits */

/* Sets part->most and part->likeliest, which is to be freed. */
enum tft_status tft_mpi_make_room(struct part *part, struct tft_error *err);

/* The size of a message with the k largest logits of a process. */
size_t tft_mpi_likeliest_bytes(size_t k);

/* A process sends those logits of its session s that are asked for. */
void tft_mpi_send_likeliest(struct part *part, struct tft_session *s, const struct tft_asked *a);

/* Process 0 writes the logits that the others send, and all of its session `own`, to a row [V] of
   the caller's session, and sets caller->out.rest. The row is as session.h says under `partial`. */
void tft_mpi_take_likeliest(struct part *part, struct tft_session *own, const struct tft_asked *a,
                            struct tft_session *caller, float *row);

/* ---- pass.c: a pass through the part */

/* Tokens whose sums are exchanged together: few enough for a CPU's cache. */
enum { TFT_MPI_BLOCK = 64 };

/* A session of the part. */
struct member {
    struct part *part;
    struct tft_session *s;
    int32_t *tokens; /* [n_batch] of a long pass, in the processes that process 0 calls */
    int32_t *words;  /* [n_batch, D] sums of this process, and then of all processes */
    float *ends;     /* [n_batch, 2] the ends of tokens' ranges, of this process and then of all */
    float *sums;     /* [TFT_MPI_BLOCK or n_batch, D] sums of a piece */
};

extern const struct tft_ops tft_mpi_ops;

/* Runs p through layers first .. end - 1 of the part, by the team of p->s; p->state is the member.
 */
void tft_mpi_pass(struct tft_pass *p, uint32_t first, uint32_t end);

#endif
