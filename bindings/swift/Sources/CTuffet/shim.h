/* shim.h - the libraries for Swift, and their structs as it can read them. */
#ifndef TUFFET_SHIM_H
#define TUFFET_SHIM_H

#include <stdlib.h>
#include <string.h>
#include <tuffet.h>
#include <tuffet_chat.h>

/* The line of an error; Swift sees an array in a struct as a tuple. */
static inline const char *shim_line(const struct tft_error *err)
{
    return err->msg;
}

/* Allocates n messages for shim_set and shim_free; NULL: no memory. */
static inline struct tft_chat_message *shim_messages(size_t n)
{
    return (struct tft_chat_message *)calloc(n + 1, sizeof(struct tft_chat_message));
}

/* Sets message i to copies of a role, which has a NUL at its end, and of text[n]. */
static inline bool shim_set(struct tft_chat_message *messages, size_t i, const char *role,
                            const char *text, size_t n)
{
    const size_t length = strlen(role) + 1;
    char *role_copy = (char *)malloc(length), *text_copy = (char *)malloc(n + 1);
    messages[i].role = role_copy;
    messages[i].text = text_copy;
    messages[i].n = n;
    if (!role_copy || !text_copy)
        return false;
    memcpy(role_copy, role, length);
    memcpy(text_copy, text, n);
    return true;
}

/* Frees n messages, of which some may not be set. */
static inline void shim_free(struct tft_chat_message *messages, size_t n)
{
    for (size_t i = 0; messages && i < n; i++) {
        free((void *)messages[i].role);
        free((void *)messages[i].text);
    }
    free(messages);
}

#endif
