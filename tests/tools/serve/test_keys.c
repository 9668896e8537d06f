/* The file of keys: tools/serve/keys.c, sha256.c. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/serve/keys.h"
#include "tools/serve/sha256.h"

static void assert_hash(const char *text, size_t n, const char *want)
{
    unsigned char hash[SHA256_BYTES];
    char hex[2 * SHA256_BYTES + 1];
    sha256(text, n, hash);
    for (int i = 0; i < SHA256_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", hash[i]);
    assert_string_equal(hex, want);
}

/* The examples of FIPS 180, and lengths about the end of a block. */
static void hashes(void **state)
{
    (void)state;
    static char many[1000000];
    memset(many, 'a', sizeof many);
    assert_hash("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_hash("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_hash(many, sizeof many,
                "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    assert_hash(many, 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
    assert_hash(many, 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

static struct keys *parse(const char *text, size_t n, char *why)
{
    char *copy = malloc(n + 1); /* of exact size: reading beyond it is noticed */
    assert_non_null(copy);
    memcpy(copy, text, n);
    char *exact = n ? realloc(copy, n) : copy;
    struct keys *k = keys_parse(exact, n, why);
    free(exact);
    return k;
}

static void by_name(void **state)
{
    (void)state;
    static const char text[] = "\xef\xbb\xbf# of the house\n\nann:secret-1\r\nbob.2:a:b\n\nc:x";
    char why[KEYS_WHY];
    struct keys *k = parse(text, sizeof text - 1, why);
    assert_non_null(k);
    assert_string_equal(keys_find(k, "secret-1"), "ann");
    assert_string_equal(keys_find(k, "a:b"), "bob.2");
    assert_string_equal(keys_find(k, "x"), "c");
    static const char *const none[] = {"", "secret", "secret-1\r", "ann", "a", "of the house"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_null(keys_find(k, none[i]));
    keys_free(k);
}

static void wrong(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n;
        const char *line;
    } all[] = {{"", 0, "line 0: "},
               {"# a:b\n", 6, "line 1: there is no key"},
               {"a:b\nnone", 8, "line 2: "},
               {":b", 2, "line 1: "},
               {"a:", 2, "line 1: "},
               {"a b:c", 5, "line 1: "},
               {"a:b c", 5, "line 1: "},
               {"a:b\na:c\n", 8, "line 2: a line above has this name"},
               {"a:b\n\nc:b", 8, "line 3: a line above has this key"},
               {"a:b\0c", 5, "line 1: "},
               {"\0:b", 3, "line 1: "},
               {"a:\xff", 3, "line 1: "},
               {"a:b\n\xef\xbb\xbf"
                "c:d",
                10, "line 2: "},
               {"\r\r\n", 3, "line 1: "}};
    char why[KEYS_WHY];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *why = 0;
        assert_null(parse(all[i].text, all[i].n, why));
        assert_int_equal(strncmp(why, all[i].line, strlen(all[i].line)), 0);
    }
}

static void bounds(void **state)
{
    (void)state;
    static char text[(KEYS_MOST + 1) * 16];
    char why[KEYS_WHY], name[2 * KEYS_NAME];
    size_t n = 0;
    for (int i = 0; i < KEYS_MOST; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "n%d:k%d\n", i, i);
    struct keys *k = parse(text, n, why);
    assert_non_null(k);
    assert_string_equal(keys_find(k, "k1023"), "n1023");
    keys_free(k);
    n += (size_t)snprintf(text + n, sizeof text - n, "x:x\n");
    assert_null(parse(text, n, why));
    assert_string_equal(why, "line 1025: there are too many keys");
    memset(name, 'n', sizeof name);
    memcpy(name + KEYS_NAME, ":k", 2);
    k = parse(name, KEYS_NAME + 2, why);
    assert_non_null(k);
    keys_free(k);
    memcpy(name + KEYS_NAME, "n:k", 3);
    assert_null(parse(name, KEYS_NAME + 3, why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes),
        cmocka_unit_test(by_name),
        cmocka_unit_test(wrong),
        cmocka_unit_test(bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
