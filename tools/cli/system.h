/*
 * Functions of the operating system for the commands, beside port/port.h for the library.
 * system_posix.c and system_windows.c implement this header, and the functions of cli.h that catch
 * Ctrl-C.
 */
#ifndef SYSTEM_H
#define SYSTEM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Called once, before anything is read or written: the standard streams carry bytes unchanged, and
   a terminal shows UTF-8 and obeys control sequences. */
void system_begin(void);

/* Whether a person is at the other end: STDIN_FILENO, STDOUT_FILENO or STDERR_FILENO. */
bool system_is_terminal(int fd);

/* The path by which the program was called, with slashes; argv0 is what main got. */
const char *system_program_path(const char *argv0);

/* The folder for temporary files of the program. */
const char *system_temp_folder(void);

/* Whether both paths lead to one file or folder, by links too. */
bool system_is_same_file(const char *a, const char *b);

/* The bytes that are left on the disk where the file `path` is or will be. Returns false if that is
   not known. */
bool system_disk_left(const char *path, uint64_t *bytes);

/* The bytes of memory that programs can still take. Returns false if that is not known. */
bool system_memory_left(uint64_t *bytes);

/* Lowers the priority of the calling thread, and of threads that it starts later, by n of 19 steps.
   Returns false if the system refuses. */
bool system_nice(int n);

/* The bytes of an open file; -1: it has no size. */
int64_t system_file_size(FILE *f);

/* Keeps in memory what the process has now, files too, and reads what is not there yet. Returns
   false, with errno set, if the system refuses. */
bool system_lock_memory(void);

/* Waits for so many nanoseconds, or until a signal comes. */
void system_wait(uint64_t ns);

/* The CPU time of the calling thread; NaN if it is not known. */
double system_thread_seconds(void);

#endif
