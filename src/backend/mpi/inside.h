/*
 * Shared declarations of the MPI backend (docs/architecture.md). Several processes compute one
 * model. Process 0 has the model and the sessions of the caller. Every process, including process
 * 0, has a *part*: a model with some of the heads, of the hidden activations and of the vocabulary,
 * and a session of the part for each session of the caller.
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
    int error; /* MPI's first error; it persists. 0: none */
};

/* Meets the other processes. */
enum tft_status tft_mpi_join(struct link *link, struct tft_error *err);
void tft_mpi_leave(struct link *link);

/* The status that all processes return: TFT_OK if all processes succeeded. Otherwise the first
   failed process sends its status and line to all. */
enum tft_status tft_mpi_agree(struct link *link, enum tft_status status, struct tft_error *err);

/* TFT_OK, or TFT_ERR_DEVICE with a line about link->error. */
enum tft_status tft_mpi_status(const struct link *link, struct tft_error *err);

/* words: [n] in every process = the sum, modulo 2^32, of words in all processes. */
void tft_mpi_sum(struct link *link, int32_t *words, size_t n);

/* numbers: [n] in every process = the largest of the numbers in all processes. */
void tft_mpi_largest(struct link *link, float *numbers, size_t n);

/* Sends bytes from process 0 to all; `bytes` is the same in all. */
void tft_mpi_spread(struct link *link, void *data, size_t bytes);

/* Process 0 calls the other processes, which wait for a call without busy CPUs. */
void tft_mpi_call(struct link *link, const void *call, size_t bytes);
void tft_mpi_await(struct link *link, void *call, size_t bytes);

/* Joins the processes' columns of logits to rows of process 0: to: [n, width], own: [n, columns of
   this process]. ends: [size] the end of each process's columns */
void tft_mpi_gather(struct link *link, float *to, uint32_t width, const float *own, uint32_t n,
                    const uint32_t *ends);

/* Sends bytes to process 0. Next, for process 0: receives bytes of process r. */
void tft_mpi_send(struct link *link, const void *data, size_t bytes);
void tft_mpi_receive(struct link *link, int r, void *data, size_t bytes);

/* ---- part.c: the part of a model that a process has */

/* Units from .. to - 1 of something distributed over the processes. */
struct range {
    uint32_t from, to;
};

/*
 * A process's columns of a matrix, in pieces of at most TFT_MPI_PIECE columns. A kernel turns the
 * sum of so few products into an exact float, so sums of pieces and of processes can be added.
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
    uint32_t *vocab_ends;    /* [link.size] the end of each process's vocabulary */
    void *memory;            /* of all these arrays */

    size_t most; /* the largest k of a message of the k largest logits; above, all logits */
    struct likeliest *likeliest; /* the message, to send or received */
};

/* Cuts `whole` into the part of process part->link.rank. */
enum tft_status tft_mpi_cut(struct part *part, const struct tft_model *whole,
                            struct tft_error *err);

/* ---- logits.c: messages with the largest logits */

/* Sets part->most and part->likeliest; the caller frees part->likeliest. */
enum tft_status tft_mpi_make_room(struct part *part, struct tft_error *err);

/* The size of a message with the k largest logits of a process. */
size_t tft_mpi_likeliest_bytes(size_t k);

/* Sends the requested logits of this process's session s. */
void tft_mpi_send_likeliest(struct part *part, struct tft_session *s, const struct tft_asked *a);

/* In process 0: writes the received logits, and all logits of session `own`, to a row [V] of the
   caller's session, and sets caller->out.rest. session.h describes the row under `partial`. */
void tft_mpi_take_likeliest(struct part *part, struct tft_session *own, const struct tft_asked *a,
                            struct tft_session *caller, float *row);

/* ---- pass.c: a pass through the part */

/* Tokens per exchange of sums: few enough for a CPU's cache. */
enum { TFT_MPI_BLOCK = 64 };

/* A session of the part. */
struct member {
    struct part *part;
    struct tft_session *s;
    int32_t *tokens; /* [n_batch] of a long pass, in the processes other than 0 */
    int32_t *words;  /* [n_batch, D] sums of this process, then of all processes */
    float *ends;     /* [n_batch, 2] the ends of tokens' ranges, of this process, then of all */
    float *sums;     /* [TFT_MPI_BLOCK or n_batch, D] sums of a piece */
};

extern const struct tft_ops tft_mpi_ops;

/* Runs p through layers first .. end - 1 of the part, by the team of p->s; p->state is the member.
 */
void tft_mpi_pass(struct tft_pass *p, uint32_t first, uint32_t end);

#endif
