/* The places at which a conversation may lose messages: tools/serve/cut.c. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "tools/serve/cut.h"

/* A letter a message: s system, u user, a answer, t result of a tool. */
static json_t *conversation(const char *letters)
{
    json_t *all = json_array();
    for (; *letters; letters++) {
        const char *role = *letters == 's'   ? "system"
                           : *letters == 'u' ? "user"
                           : *letters == 'a' ? "assistant"
                                             : "tool";
        json_array_append_new(all, json_pack("{s:s}", "role", role));
    }
    return all;
}

/* Checks the cuts of a conversation: for each, the messages that stay, by their places in letters
   from A on; a space separates cuts. */
static void check(const char *letters, const char *wanted)
{
    char found[200] = "";
    struct cuts c;
    json_t *all = conversation(letters);
    assert_true(cuts_find(&c, all));
    for (size_t k = 0; k < c.n; k++) {
        json_t *rest = cut_apply(&c.p[k], all);
        size_t n = json_array_size(rest), at = strlen(found);
        assert_int_equal(n + cut_size(&c.p[k]), strlen(letters));
        if (k)
            found[at++] = ' ';
        for (size_t i = 0; i < n; i++) {
            size_t place = cut_place(&c.p[k], i);
            assert_ptr_equal(json_array_get(rest, i), json_array_get(all, place));
            found[at++] = (char)('A' + place);
        }
        found[at] = 0;
        json_decref(rest);
    }
    assert_string_equal(found, wanted);
    free(c.p);
    json_decref(all);
}

static void turns(void **state)
{
    (void)state;
    check("", "");
    check("u", "");
    check("su", "");
    check("sua", "");
    check("suauau", "ADEF AF");
    check("uauau", "CDE E");
    check("ssuau", "ABE");
    check("sauau", "ACDE AE"); /* begins with an answer */
    check("uuauu", "DE");      /* two messages are one turn */
    check("uasu", "CD");       /* a system message within a conversation belongs to what follows */
    check("uas", "");
}

static void calls(void **state)
{
    (void)state;
    check("suatatat", "ABEFGH ABGH");
    check("suatuatat", "AEFGHI AEHI");
    check("suatata", "ABEFG ABG");
    check("uatua", "DE");
    check("uauta", ""); /* the result is of a call before the message of the user */
    check("sat", "");   /* there is no message of a user to keep */
    check("uattat", "AEF");
    check("uatatuta", "ADEFGH"); /* a message of the user beside a result stays */
}

static void messages_before(void **state)
{
    (void)state;
    struct cuts c;
    json_t *all = conversation("uau");
    assert_true(cuts_find(&c, all));
    json_array_insert_new(all, 0, json_pack("{s:s}", "role", "system"));
    cuts_shift(&c, 1);
    assert_int_equal(c.n, 1);
    json_t *rest = cut_apply(c.p, all);
    assert_int_equal(json_array_size(rest), 2);
    assert_int_equal(cut_place(c.p, 0), 0);
    assert_int_equal(cut_place(c.p, 1), 3);
    json_decref(rest);
    free(c.p);
    json_decref(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(turns), cmocka_unit_test(calls),
                                       cmocka_unit_test(messages_before)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
