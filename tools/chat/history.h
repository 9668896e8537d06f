/*
 * The history of lines typed in tuffet chat, in a file of the user: tuffet/history in
 * $XDG_STATE_HOME, or in ~/.local/state (XDG Base Directory Specification 0.8). One entry a line; a
 * newline in an entry is \n, a backslash \\. Entries are appended one by one, so that conversations
 * that run at the same time all keep their entries.
 */
#ifndef HISTORY_H
#define HISTORY_H

#include <stddef.h>

enum {
    HISTORY_ENTRIES = 1000,      /* entries to load; the file has at most twice as many */
    HISTORY_LONGEST = 16 * 1024, /* bytes of an entry; longer ones are not written to the file */
};

/* Calls add for the newest entries, from the oldest on. A file that cannot be read is empty. */
void history_load(void (*add)(const char *entry));

/* Appends an entry. If the file cannot be written, the entry is not kept. */
void history_append(const char *entry, size_t n);

#endif
