/*
 * Compares tft_nfc with utf8proc: every code point alone and after a letter, and random texts of
 * the characters that the tables name. utf8proc 2.8 takes U+11A7 after a Hangul syllable for a
 * final consonant and drops it; in Unicode (chapter 3.12) final consonants begin with U+11A8. So
 * U+11A7 is left out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "text/nfc.h"
#include "text/nfc_tables.h"

static uint64_t seed = 1;

static uint32_t below(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((seed >> 33) % n);
}

static size_t put(char *out, uint32_t c)
{
    return (size_t)utf8proc_encode_char((utf8proc_int32_t)c, (utf8proc_uint8_t *)out);
}

static int differs(const char *text, size_t n)
{
    char have[1024];
    utf8proc_uint8_t *want;
    size_t n_have;
    utf8proc_ssize_t n_want = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n,
                                           &want, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    int bad = n_want < 0 || tft_nfc(text, n, NULL, have, &n_have) || n_have != (size_t)n_want ||
              memcmp(have, want, n_have) != 0 ||
              (!tft_nfc_may_change(text, n) && (n_have != n || memcmp(have, text, n) != 0));
    if (bad) {
        printf("differs:");
        for (size_t i = 0; i < n; i++)
            printf(" %02x", (unsigned char)text[i]);
        printf("\n");
    }
    free(want);
    return bad;
}

#define ANY(table) (table)[below(sizeof(table) / sizeof *(table))]

static uint32_t any(void)
{
    switch (below(6)) {
    case 0: return ANY(tft_nfc_parts)[0];
    case 1: return ANY(tft_nfc_pairs)[below(2)];
    case 2: return ANY(tft_nfc_ranges) >> 9;
    case 3: return 0x1100 + below(256);
    case 4: return 0xac00 + below(11172);
    default: return 'a' + below(26);
    }
}

int main(void)
{
    int failed = 0;
    char text[256];
    for (uint32_t c = 1; c < 0x110000 && failed < 10; c++)
        if (c >> 11 != 0xd800 >> 11) {
            failed += differs(text, put(text, c));
            text[0] = 'e';
            failed += differs(text, 1 + put(text + 1, c));
        }
    for (int i = 0; i < 300000 && failed < 10; i++) {
        size_t n = 0;
        for (uint32_t k = 1 + below(12); k--;) {
            uint32_t c = any();
            n += put(text + n, c && c != 0x11a7 ? c : 'a');
        }
        failed += differs(text, n);
    }
    printf("Unicode %s, utf8proc has %s: %s\n", TFT_NFC_VERSION, utf8proc_unicode_version(),
           failed ? "differs" : "same");
    return failed != 0;
}
