/*
 * port/ is the only part of the library that knows the operating system. posix.c implements this
 * header for Linux, the BSDs and macOS, with cpus.c; windows.c for Windows, with cpus_windows.c.
 * threads_openmp.c, threads_posix.c or threads_none.c implements the threads. A port to another
 * system implements the same functions.
 *
 * A function that can fail returns 0 or an errno, unless its comment says otherwise. Result
 * parameters are never NULL, and are unchanged on failure. No function prints or aborts.
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

/* The bytes of memory that this process may use: the machine's, or fewer by its cgroup's limit.
   0: unknown. */
uint64_t tft_port_memory(void);

/* ---- files */

struct tft_map {
    const unsigned char *data; /* NULL: no bytes */
    size_t size;
    size_t lead; /* bytes of the mapping before data; the mapping begins with a page */
};

/* Maps a whole regular file for reading. EISDIR for a folder, EINVAL for another special file,
   EFBIG for a file larger than the address space, or the system's error. */
int tft_port_map(struct tft_map *out, const char *path);

/* Maps `size` bytes from byte `offset` of an open file on; size 0: all bytes from `offset` on. The
   caller keeps the descriptor. ERANGE: the file does not have the bytes. */
int tft_port_map_part(struct tft_map *out, int fd, uint64_t offset, uint64_t size);
void tft_port_unmap(struct tft_map *map);

/* Frees the memory of the whole pages among bytes [begin, end) of a mapped file. The pages stay
   mapped: the next use reads them from the file again. */
void tft_port_forget(const struct tft_map *map, size_t begin, size_t end);

/* Starts to read the pages of bytes [begin, end) of a mapped file, and does not wait for them. */
void tft_port_prefetch(const struct tft_map *map, size_t begin, size_t end);

/* As tft_port_forget. The system's copy of the pages is freed too, where the system allows this and
   no other process maps them: the next use reads them from the disk. */
void tft_port_evict(const struct tft_map *map, size_t begin, size_t end);

/*
 * A temporary file is a new file that replaces another file once it is complete. If the system
 * allows, the temporary file has no name until then, so a killed process leaves nothing. Only at
 * two moments does a killed process leave PATH.tmpN: when it tests whether an unnamed file may get
 * a name (empty file) and when the complete file gets its name (whole file). On other systems the
 * temporary file is PATH.tmpN all the time. N is the first free number.
 */
enum { TFT_TEMP_ROOM = 32 };
struct tft_temp {
    char *name; /* for mapping the file; memory of the caller: strlen(path) + TFT_TEMP_ROOM
                   bytes */
    int fd;     /* private to the port: the open temporary file, if it has no name; else -1 */
};

/* Creates a temporary file for `path`, opens *file for writing the temporary file, and fills
   d->name. */
int tft_port_temp(struct tft_temp *d, FILE **file, const char *path);

/* The target of `path` after symbolic links, if the target exists, else path. The caller frees the
   result; NULL: out of memory. */
char *tft_port_target(const char *path);

/* Lets nobody but the user read and write the file. */
int tft_port_private(FILE *f); /* returns 0 or an errno */

/* Replaces `path` with the temporary file, atomically and durably, with the mode of the old file.
   Close the temporary file's file first. After a failure the temporary file remains, for
   tft_port_discard. But if d->name is empty, the temporary file has replaced `path`, and only a
   power failure now can lose it. */
int tft_port_keep(struct tft_temp *d, const char *path);

/* Removes the temporary file. */
void tft_port_discard(struct tft_temp *d);

/* Sets the position of the next write to an open file, even if a long has 32 bits. */
int tft_port_seek(FILE *f, uint64_t pos);

/* ---- plug-ins */

/* Loads the shared library `name` (libNAME.so, or the system's form), searched like this library's
   own dependencies, and returns the address of a symbol. On failure: NULL, and the system's message
   in why[size]. */
void *tft_port_load(void **library, const char *name, const char *symbol, char *why, size_t size);
void tft_port_unload(void *library);

/* ---- time and CPUs */

uint64_t tft_port_ns(void); /* nanoseconds of a monotonic clock */

/* The CPUs that this process may use. All but quota are at least 1. */
struct tft_cpus {
    int allowed; /* by the affinity of the calling thread */
    int cores;   /* of these: CPUs that share a core count once */
    int fast;    /* of these cores: without much slower ones, as a phone has */
    int quota;   /* of the cgroup, in CPUs, rounded down, at least 1; 0: none */
};
void tft_port_count_cpus(struct tft_cpus *out);

/* The number of threads that is best: one for each fast core, within the quota; at least 1. */
int tft_port_cpus(void);

/* The features of a 64-bit ARM CPU beyond NEON, and of a RISC-V CPU, by the operating system. Of an
   x86-64 CPU: whether this process may use the tiles of AMX, for which it asks. 0 on other CPUs. */
enum { TFT_ARM_DOTPROD = 1, TFT_ARM_I8MM = 2, TFT_ARM_SME = 4, TFT_RISCV_V = 8, TFT_X86_AMX = 16 };
unsigned tft_port_cpu_features(void);

/* ---- threads */

enum {
    TFT_PORT_THREADS = 1024
}; /* most threads of a team; libgomp crashes on very large numbers */

/* Runs fn(arg, tid, n) on a team of n threads, tid 0 on the calling thread, and returns when all
   threads are done. Each thread has C's default floating-point environment in fn. The team has at
   most as many threads as can be started, and as the calling thread has CPUs: fn receives the
   actual size. A team that fn begins has one thread. */
void tft_port_team(int n, void (*fn)(void *arg, int tid, int n), void *arg);

/* Set by tests: a team may have more threads than CPUs. */
extern bool tft_port_crowds;

/* A flag, initialized to zero. Any thread and any signal handler may raise the flag; tft_port_lower
   returns whether the flag was raised. */
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

/* Called by every thread of a team inside fn: waits for all threads. Each thread's writes before
   the barrier are visible to all threads after it. */
void tft_port_barrier(void);

/* The name of the threads' implementation, for tft_feature; NULL: teams have one thread. */
const char *tft_port_threads(void);

static inline bool tft_port_threaded(void)
{
    return tft_port_threads() != NULL;
}

#endif
