/* Names, and the head of a reply, both from anyone: tools/pull/name.c and reply.c. */
#include "test.h"

#include <stdio.h>
#include <string.h>

#include "tools/pull/name.h"
#include "tools/pull/reply.h"

static void names(void **state)
{
    (void)state;
    struct pull_name n;
    assert_true(pull_name_read(&n, "hf:Qwen/Qwen3-0.6B-GGUF:Q4_K_M"));
    assert_string_equal(n.repo, "Qwen/Qwen3-0.6B-GGUF");
    assert_string_equal(n.quant, "Q4_K_M");
    assert_true(pull_name_read(&n, "a/b"));
    assert_string_equal(n.quant, "");
    assert_true(pull_name_read(&n, "a/b:d/x-Q8_0.gguf"));
    static const char *const wrong[] = {"",     "a",     "a/",    "/b",     "a/b/c",  "../b",
                                        "a/..", "a/b:",  "a:b/c", "a--b/c", "-a/b",   "a/b-",
                                        "a/b.", ".a/b",  "a b/c", "a/b:..", "a/b:/x", "a\\b/c",
                                        "hf:a", "a/b\n", "a..b/c"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(pull_name_read(&n, wrong[i]));
    char longest[400];
    memset(longest, 'a', sizeof longest);
    memcpy(longest + 200, "/b", 3);
    assert_false(pull_name_read(&n, longest));
}

static void folders(void **state)
{
    (void)state;
    char folder[PULL_REPO + 16], repo[PULL_REPO];
    pull_name_folder("some-one/a.b-c", folder);
    assert_string_equal(folder, "models--some-one--a.b-c");
    assert_true(pull_name_of_folder(folder, repo));
    assert_string_equal(repo, "some-one/a.b-c");
    assert_false(pull_name_of_folder("datasets--a--b", repo));
    assert_false(pull_name_of_folder("models--a", repo));
    assert_false(pull_name_of_folder("models--a--..", repo));
    assert_false(pull_name_of_folder("models--a--b--c", repo));
}

static void paths(void **state)
{
    (void)state;
    static const char *const safe[] = {"a",     "a/b.gguf",       "...",
                                       "a/..b", ".gitattributes", "\xc3\xa9"};
    static const char *const unsafe[] = {"",
                                         "/a",
                                         "a/",
                                         "..",
                                         "a/../b",
                                         ".",
                                         "a//b",
                                         "./a",
                                         "a\\b",
                                         "a\nb",
                                         "a\x7f",
                                         ("a\xc2\x9b"
                                          "b")};
    for (size_t i = 0; i < sizeof safe / sizeof *safe; i++)
        assert_true(pull_path_is_safe(safe[i]));
    for (size_t i = 0; i < sizeof unsafe / sizeof *unsafe; i++)
        assert_false(pull_path_is_safe(unsafe[i]));
}

static void line(struct reply *r, const char *text) { reply_add_line(r, text, strlen(text)); }

static void errors(void **state)
{
    (void)state;
    struct reply r = {0};
    line(&r, "x-ERROR-code:  GatedRepo \r\n");
    line(&r, "X-Error-Message: a\x1b[2Jb\r\n");
    assert_string_equal(r.code, "GatedRepo");
    assert_string_equal(r.message, "a?[2Jb");
    line(&r, "HTTP/1.1 200 OK\r\n");
    assert_string_equal(r.code, "");
}

static void waits(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool has;
        unsigned wait;
    } cases[] = {{"Retry-After: 7\r\n", true, 7},
                 {"Retry-After: Wed, 21 Oct 2026 07:28:00 GMT\r\n", false, 0},
                 {"RateLimit: \"api\";r=0;t=55\r\n", true, 56},
                 {"RateLimit: \"api\";r=3;t=55\r\n", false, 0},
                 {"RateLimit: \"api\"\r\n", false, 0},
                 {"Retry-After: 99999999999999999999\r\n", true, 86400},
                 {"RateLimit: ;r=0;t=99999999999999999999\r\n", true, 86400}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reply r = {0};
        line(&r, cases[i].text);
        assert_int_equal(r.has_wait, cases[i].has);
        assert_int_equal(r.wait, cases[i].wait);
    }
}

static void links(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"Link: <http://a/b?c=1>; rel=\"next\"\r\n", "http://a/b?c=1"},
        {"link: <http://a/1>; rel=\"prev\", <http://a/2>; rel=\"next\"\r\n", "http://a/2"},
        {"Link: <http://a/1>; rel=\"last\"\r\n", ""},
        {"Link: <http://a/1; rel=\"next\"\r\n", ""},
        {"Link: \r\n", ""},
        {"Linked: <http://a/1>; rel=\"next\"\r\n", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reply r = {0};
        line(&r, cases[i][0]);
        assert_string_equal(r.next, cases[i][1]);
    }
}

/* A value that is too long counts as absent: none is cut. */
static void long_values(void **state)
{
    (void)state;
    struct reply r = {0};
    size_t n = 3 * PULL_URL;
    char *text = malloc(n + 1);
    assert_non_null(text);
    memset(text, 'a', n);
    text[n] = 0;
    memcpy(text, "Link: <", 7);
    memcpy(text + n - 13, ">; rel=\"next\"", 13);
    line(&r, text);
    assert_string_equal(r.next, "");
    memcpy(text, "X-Error-Code: ", 14);
    line(&r, text);
    assert_string_equal(r.code, "");
    free(text);
}

static void ranges(void **state)
{
    (void)state;
    struct reply r = {0};
    line(&r, "Content-Range: bytes 100-199/200\r\n");
    assert_true(r.has_at && r.at == 100);
    r = (struct reply){0};
    line(&r, "Content-Range: bytes */200\r\n");
    assert_false(r.has_at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names),       cmocka_unit_test(folders),
                                       cmocka_unit_test(paths),       cmocka_unit_test(errors),
                                       cmocka_unit_test(waits),       cmocka_unit_test(links),
                                       cmocka_unit_test(long_values), cmocka_unit_test(ranges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
