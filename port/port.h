/*
 * The machine behind one page. posix.c implements it for Linux, the BSDs and macOS, windows.c for
 * Windows; threads_openmp.c or threads_none.c the team.
 *
 * Conventions: functions that can fail return 0 or an errno; result parameters are never NULL and
 * are untouched on failure; nothing here prints or aborts.
 */
#ifndef TFT_PORT_H
#define TFT_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- memory */

/* align: a power of two that divides size. NULL on failure. */
void *tft_port_alloc(size_t size, size_t align);
void tft_port_free(void *ptr);

/* ---- files */

struct tft_map {
    const unsigned char *data; /* page-aligned; NULL for an empty file */
    size_t size;
};

/* Maps a whole regular file for reading. EISDIR, EFBIG, or what the system says. */
int tft_port_map(struct tft_map *out, const char *path);
void tft_port_unmap(struct tft_map *map);

/*
 * A file that is being written, and will then take the place of another. Where the system can, it
 * has no name until then, so that a process that is killed leaves nothing behind; elsewhere it lies
 * beside the other as PATH.tmpN, N the first number that is free.
 */
enum { TFT_DRAFT_ROOM = 32 };
struct tft_draft {
    char *name; /* how it can be mapped; the caller's, of strlen(path) + TFT_DRAFT_ROOM bytes */
    int fd;     /* private to the port: keeps a file without a name, or -1 */
};

/* Creates it, and opens it for writing. d->name is filled. */
int tft_port_draft(struct tft_draft *d, FILE **file, const char *path);

/* When `file` has been closed: makes it take the place of `path`, at once and durably. To be
   discarded after a failure, too. */
int tft_port_keep(struct tft_draft *d, const char *path);

/* Nothing of it remains. */
void tft_port_discard(struct tft_draft *d);

/* ---- plug-ins */

/* A symbol of a shared library, libNAME.so or what the system calls it, which is found as the
   system finds the libraries of this one. NULL, and in why: [size] the system's line. */
void *tft_port_load(void **library, const char *name, const char *symbol, char *why, size_t size);
void tft_port_unload(void *library);

/* ---- time and CPUs */

uint64_t tft_port_ns(void); /* monotonic */

/* CPUs this process may use: affinity, and the cgroup's quota rounded down; at least 1. */
int tft_port_cpus(void);

/* What a 64-bit ARM can do beyond NEON, as the operating system knows it; 0 on other CPUs. */
enum { TFT_ARM_DOTPROD = 1, TFT_ARM_I8MM = 2 };
unsigned tft_port_arm_features(void);

/* ---- threads */

enum { TFT_PORT_THREADS = 1024 }; /* most threads of a team; libgomp crashes when asked for very
                                     many */

/* Runs fn(arg, tid, n) on n threads, tid 0 on the caller, and returns when all have. May run with
   fewer threads than asked for; n is what it got. Not to be nested. */
void tft_port_team(int n, void (*fn)(void *arg, int tid, int n), void *arg);

/* Inside fn of a team: waits until every thread of the team is here. Writes before it are seen
   after it. */
void tft_port_barrier(void);

/* Whether teams can have more than one thread. */
bool tft_port_threaded(void);

#endif
