/*
 * The machine behind one page. posix.c implements it for Linux, the BSDs and macOS, windows.c for
 * Windows; threads_openmp.c or threads_none.c the team.
 *
 * Conventions: functions that can fail return 0 or an errno; result parameters are never NULL and are untouched on
 * failure; nothing here prints or aborts.
 */
#ifndef TFT_PORT_H
#define TFT_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- memory */

void *tft_port_alloc(size_t size, size_t align); /* align: a power of two that divides size. NULL on failure. */
void tft_port_free(void *ptr);

/* ---- files */

struct tft_map {
    const unsigned char *data; /* page-aligned; NULL for an empty file */
    size_t size;
};

/* Maps a whole regular file for reading. EISDIR, EFBIG, or what the system says. */
int tft_port_map(struct tft_map *out, const char *path);
void tft_port_unmap(struct tft_map *map);

/* Makes a file that was written to `tmp` take the place of `path`, at once and durably. */
int tft_port_replace(const char *tmp, const char *path);

/* ---- time and CPUs */

uint64_t tft_port_ns(void); /* monotonic */

/* CPUs this process may use: affinity, and the cgroup's quota rounded down; at least 1. */
int tft_port_cpus(void);

/* What a 64-bit ARM can do beyond NEON, as the operating system knows it; 0 on other CPUs. */
enum { TFT_ARM_DOTPROD = 1, TFT_ARM_I8MM = 2 };
unsigned tft_port_arm_features(void);

/* ---- threads */

enum { TFT_PORT_THREADS = 1024 }; /* most threads of a team; libgomp crashes when asked for very many */

/* Runs fn(arg, tid, n) on n threads, tid 0 on the caller, and returns when all have. May run with fewer threads than
   asked for; n is what it got. Not to be nested. */
void tft_port_team(int n, void (*fn)(void *arg, int tid, int n), void *arg);

/* Inside fn of a team: waits until every thread of the team is here. Writes before it are seen after it. */
void tft_port_barrier(void);

/* Whether teams can have more than one thread. */
bool tft_port_threaded(void);

#endif
