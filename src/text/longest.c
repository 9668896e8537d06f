/*
 * RWKV's vocabulary (BlinkDL/ChatRWKV, rwkv_tokenizer.py): at each place of a text, the longest
 * token that it begins with there. Names of normal tokens are Python literals of bytes without
 * quotes: \t, \n, \r, two digits after \x, and any other character after a backslash for itself.
 *
 * llama.cpp also finds the names of control and unused tokens in any text. Here a text makes
 * control tokens only where names of special tokens are read.
 */
#include "base/hex.h"
#include "trie.h"

/* The byte that the escape s[n], n >= 1, after a backslash, stands for; *len: its length. -1: it is
   damaged. */
static int escaped(const char *s, size_t n, size_t *len)
{
    *len = 1;
    if (*s == 't')
        return '\t';
    if (*s == 'n')
        return '\n';
    if (*s == 'r')
        return '\r';
    if (*s != 'x')
        return (unsigned char)*s;
    *len = 3;
    int high = n < 3 ? -1 : tft_hex_digit(s[1]), low = n < 3 ? -1 : tft_hex_digit(s[2]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

bool tft_longest_decode(struct tft_str s, char *out, size_t *n)
{
    *n = 0;
    for (size_t i = 0, len; i < s.n; i += len, (*n)++) {
        int byte = (unsigned char)s.p[i];
        len = 1;
        if (byte == '\\') {
            byte = i + 1 < s.n ? escaped(s.p + i + 1, s.n - i - 1, &len) : -1;
            len++;
        }
        if (byte < 0)
            return false;
        if (out)
            out[*n] = (char)byte;
    }
    return true;
}

/* The longest token that text[n] begins with, *id; returns its length. 0: none. */
static size_t longest(const struct tft_trie *trie, const char *text, size_t n, int32_t *id)
{
    const struct tft_trie_node *node = trie->node;
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        node = tft_trie_child(trie, node, (unsigned char)text[i]);
        if (!node)
            break;
        if (node->id < 0)
            continue;
        *id = node->id;
        len = i + 1;
    }
    return len;
}

void tft_longest_encode(const struct tft_tokenizer *t, const char *text, size_t n,
                        struct tft_ids *out)
{
    for (size_t at = 0, len; at < n; at += len) {
        int32_t id = t->unknown;
        len = longest(t->trie, text + at, n - at, &id);
        tft_ids_push(out, id);
        len = len ? len : 1;
    }
}
