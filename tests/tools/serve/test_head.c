/* The head of a request, before evhttp reads it: tools/serve/head.c. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "tools/serve/head.h"

static struct head head_of(const char *text)
{
    struct head h;
    assert_true(head_read(&h, text, strlen(text)));
    return h;
}

static void claims(void **state)
{
    (void)state;
    struct head h = head_of("POST / HTTP/1.1\r\nHOST:  a.org \t\r\nx-api-key:k\r\n"
                            "Authorization: Bearer x\r\n y\r\nContent-Length: 12\r\n\r\n");
    assert_string_equal(h.claims.host, "a.org");
    assert_string_equal(h.claims.key, "k");
    assert_string_equal(h.claims.bearer, "Bearer x");
    assert_null(h.claims.origin);
    assert_true(head_has_body(&h) && h.length == 12 && !h.coded && !h.expects && !h.unclear);
    head_free(&h);
}

static void bodies(void **state)
{
    (void)state;
    static const struct {
        const char *lines;
        bool has, unclear;
        int64_t length;
    } cases[] = {{"", false, false, -1},
                 {"Host: a\r\nHost: a\r\n", false, true, -1},
                 {"Content-Length: 0\r\n", false, false, 0},
                 {"Content-Length: 7\r\nContent-Length: 7\r\n", true, true, 7},
                 {"Content-Length: +7\r\n", true, true, -1},
                 {"Content-Length: 7, 7\r\n", true, true, -1},
                 {"Content-Length:\r\n", true, true, -1},
                 {"Content-Length: 99999999999999999999\r\n", true, false, -1},
                 {"Content-Length : 7\r\n", false, true, -1},
                 {"Transfer-Encoding: Chunked\r\n", true, false, -1},
                 {"Transfer-Encoding: gzip, chunked\r\n", true, true, -1},
                 {"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", true, true, -1},
                 {"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", true, true, 0},
                 {"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", true, true, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200];
        snprintf(text, sizeof text, "GET / HTTP/1.1\r\n%s\r\n", cases[i].lines);
        struct head h = head_of(text);
        assert_int_equal(head_has_body(&h), cases[i].has);
        assert_int_equal(h.unclear, cases[i].unclear);
        assert_int_equal(h.length, cases[i].length);
        head_free(&h);
    }
}

static void lines(void **state)
{
    (void)state;
    assert_true(head_is_line("GET / HTTP/1.1", 14, true));
    assert_false(head_is_line("GET /", 5, true));
    assert_false(head_is_line("\0", 1, true));
    assert_true(head_is_line("a: b", 4, false));
    assert_true(head_is_line(" b", 2, false));
    assert_false(head_is_line("ab", 2, false));
}

static void changes(void **state)
{
    (void)state;
    char text[] = "POST / HTTP/1.1\nHost: a\r\ncontent-length: 5\r\n 6\r\nConnection: x\r\n"
                  "Content-Lengthy: 1\r\nTransfer-Encoding: chunked\r\nExpect: y\r\n\r\n";
    char kept[] = "GET / HTTP/1.1\r\nConnection: x\r\nExpect: y\r\n\r\n";
    assert_int_equal(head_strip(kept, strlen(kept), false), strlen(kept) - strlen("Expect: y\r\n"));
    size_t n = head_strip(text, strlen(text), true);
    struct cli_text t = {0};
    assert_true(cli_text_append(&t, text, n));
    assert_true(head_add(&t, "Connection: close\r\n"));
    assert_true(cli_text_append(&t, "", 1));
    assert_string_equal(t.p, "POST / HTTP/1.1\nHost: a\r\nContent-Lengthy: 1\r\n"
                             "Connection: close\r\n\r\n");
    free(t.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(claims), cmocka_unit_test(bodies),
                                       cmocka_unit_test(lines), cmocka_unit_test(changes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
