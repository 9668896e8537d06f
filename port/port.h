/*
 * port/ is the only part of the library that knows the operating system. posix.c implements this
 * header for Linux, the BSDs and macOS, windows.c for Windows; threads_openmp.c, threads_posix.c or
 * threads_none.c implement the threads. A port to another system implements the same functions.
 *
 * A function that can fail returns 0 or an errno, unless it says otherwise. Result parameters are
 * never NULL, and are unchanged on failure. Nothing here prints or aborts.
 */
#ifndef TFT_PORT_H
#define TFT_PORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- memory */

/* `size` bytes aligned to `align`, a power of two that divides size. NULL on failure. */
void *tft_port_alloc(size_t size, size_t align);
void tft_port_free(void *ptr); /* ptr may be NULL */

/* ---- files */

struct tft_map {
    const unsigned char *data; /* NULL: no bytes */
    size_t size;
    size_t lead; /* bytes of the mapping before data; the mapping begins with a page */
};

/* Maps a whole regular file for reading. EISDIR for a folder, EINVAL for another special file,
   EFBIG for a file larger than the address space, or the system's error. */
int tft_port_map(struct tft_map *out, const char *path);

/* The same for `size` bytes from byte `offset` of an open file, whose descriptor stays the
   caller's; size 0: all bytes from there. ERANGE: the file does not have them. */
int tft_port_map_part(struct tft_map *out, int fd, uint64_t offset, uint64_t size);
void tft_port_unmap(struct tft_map *map);

/* Gives back the memory of the whole pages among bytes [begin, end) of a mapped file. They stay
   mapped, and are read from the file again when they are next used. */
void tft_port_forget(const struct tft_map *map, size_t begin, size_t end);

/*
 * A draft is a file that is being written and will then replace another. Where the system allows
 * it, the draft has no name until then: if the process is killed, nothing remains. Only in two
 * moments, when it asks whether such a file may get a name and when the complete file gets one,
 * does a killed process leave PATH.tmpN, empty or whole. Elsewhere the draft lies beside the other
 * file as PATH.tmpN all the time. N is the first free number.
 */
enum { TFT_DRAFT_ROOM = 32 };
struct tft_draft {
    char *name; /* by which it can be mapped; memory of the caller: strlen(path) + TFT_DRAFT_ROOM
                   bytes */
    int fd;     /* private to the port: keeps a draft without a name open, or -1 */
};

/* Creates a draft for `path`, opens *file for writing to it, and fills d->name. */
int tft_port_draft(struct tft_draft *d, FILE **file, const char *path);

/* The file that `path` leads to: behind symbolic links, where there is such a file, else path. The
   caller frees it; NULL: out of memory. */
char *tft_port_target(const char *path);

/* Puts the draft, whose file has been closed, in the place of `path`, atomically and durably, with
   the mode of the file that was there. After a failure the draft remains, to be discarded; unless
   d->name is empty: then it is in its place, but may be lost if the power fails now. */
int tft_port_keep(struct tft_draft *d, const char *path);

/* Removes the draft. */
void tft_port_discard(struct tft_draft *d);

/* Makes the next byte of an open file be written at `pos`, also where a long has 32 bits. */
int tft_port_seek(FILE *f, uint64_t pos);

/* ---- plug-ins */

/* Loads the shared library `name` (libNAME.so, or what the system calls it) from where the system
   finds this library's libraries, and returns the address of a symbol. On failure NULL, and the
   system's message in why[size]. */
void *tft_port_load(void **library, const char *name, const char *symbol, char *why, size_t size);
void tft_port_unload(void *library);

/* ---- time and CPUs */

uint64_t tft_port_ns(void); /* nanoseconds of a monotonic clock */

/* The number of CPUs that this process may use, by its affinity and its cgroup's quota, rounded
   down; at least 1. */
int tft_port_cpus(void);

/* What a 64-bit ARM CPU has beyond NEON, according to the operating system; 0 on other CPUs. */
enum { TFT_ARM_DOTPROD = 1, TFT_ARM_I8MM = 2 };
unsigned tft_port_arm_features(void);

/* ---- threads */

enum {
    TFT_PORT_THREADS = 1024
}; /* most threads of a team; libgomp crashes if asked for very many */

/* Runs fn(arg, tid, n) on a team of n threads, tid 0 on the calling thread, and returns when all
   are done. Each has C's default floating-point environment meanwhile. The team may be smaller than
   the n that was asked for: fn receives the actual size. It has as many threads as can be started,
   and not more than the calling thread has CPUs. A team that fn begins has one thread. */
void tft_port_team(int n, void (*fn)(void *arg, int tid, int n), void *arg);

/* Set by tests: a team may have more threads than there are CPUs. */
extern bool tft_port_crowds;

/* A flag, all zero at first. Any thread may raise it, and a signal handler; tft_port_lower returns
   whether it was raised. */
struct tft_port_flag {
    atomic_bool raised;
};

static inline void tft_port_raise(struct tft_port_flag *f)
{
    atomic_store(&f->raised, true);
}

static inline bool tft_port_lower(struct tft_port_flag *f)
{
    return atomic_load_explicit(&f->raised, memory_order_relaxed) &&
           atomic_exchange(&f->raised, false);
}

/* Called by every thread of a team inside fn: waits for all of them. What any of them wrote before
   is visible to all after it. */
void tft_port_barrier(void);

/* What teams are made by, for tft_feature; NULL: they have one thread. */
const char *tft_port_threads(void);

static inline bool tft_port_threaded(void)
{
    return tft_port_threads() != NULL;
}

#endif
