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

/* A file. Without padding. */
struct system_file {
    uint64_t device, number; /* of two files, one differs */
    uint64_t size;
    int64_t seconds, ns; /* of its last change, since 1970 */
};

/* The name of the file at the end of a path. */
const char *system_file_name(const char *path);

/* The file that a path leads to, also by links. Returns false if there is none. */
bool system_find_file(const char *path, struct system_file *out);

/* The bytes of memory that the machine has; 0: unknown. */
uint64_t system_memory(void);

/* The bytes of memory that programs can still take. Returns false if that is not known. */
bool system_memory_left(uint64_t *bytes);

/* Whether the stacks of the first thread, and of threads that name no size, may grow to so many
   bytes. */
bool system_has_stack(size_t bytes);

/* Lowers the priority of the calling thread, and of threads that it starts later, by n of 19 steps.
   Returns false if the system refuses. */
bool system_nice(int n);

/* The bytes of an open file; -1: it has no size. */
int64_t system_file_size(FILE *f);
int64_t system_size(int fd);

/* Reads a line with its newline to *line[*room], which grows, and adds a 0. Returns the bytes of
   the line; -1 at the end of the file, or after an error. The caller frees *line. */
int64_t system_line(char **line, size_t *room, FILE *f);

/* Memory in whole pages, all zero, which the system has back as soon as they are freed. NULL on
   failure. */
void *system_pages(size_t size);
void system_free_pages(void *p, size_t size);
size_t system_page_size(void);

/* The machine's own name, with a 0 at its end. Returns false if it is not known. */
bool system_host_name(char *name, size_t room);

/* Keeps in memory what the process has now, files too, and reads what is not there yet. Returns
   false, with errno set, if the system refuses. */
bool system_lock_memory(void);

/* Waits for so many nanoseconds, or until a signal comes. */
void system_wait(uint64_t ns);

/* The CPU time of the calling thread; NaN if it is not known. */
double system_thread_seconds(void);

#endif
