/* How an answer is shown: on a terminal with styles, thoughts are dim, wherever the text is split
   into pieces. */
#define _XOPEN_SOURCE 700 /* posix_openpt */
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "tools/chat/display.h"

#define DIM "\x1b[2m"
#define PLAIN "\x1b[0m"

/* Standard output is a terminal of this test's own, which does not change the output. */
static int screen, found;

static int make_terminal(void **state)
{
    struct termios t;
    (void)state;
    screen = posix_openpt(O_RDWR | O_NOCTTY);
    if (screen < 0 || grantpt(screen) != 0 || unlockpt(screen) != 0)
        return -1;
    int side = open(ptsname(screen), O_RDWR | O_NOCTTY);
    if (side < 0 || tcgetattr(side, &t) != 0)
        return -1;
    t.c_oflag &= ~(tcflag_t)OPOST;
    fflush(stdout);
    found = dup(STDOUT_FILENO);
    return tcsetattr(side, TCSANOW, &t) == 0 && dup2(side, STDOUT_FILENO) >= 0 ? 0 : -1;
}

static int leave_terminal(void **state)
{
    (void)state;
    return dup2(found, STDOUT_FILENO) >= 0 ? 0 : -1;
}

/* Shows text in pieces of n bytes, and compares the terminal's input. */
static void shows(bool in_thought, const char *text, size_t n, const char *want)
{
    char got[256];
    size_t len = strlen(want);
    display_begin(in_thought);
    for (size_t i = 0, rest = strlen(text); rest; i += n < rest ? n : rest, rest = strlen(text + i))
        assert_true(display_print(text + i, n < rest ? n : rest));
    assert_true(display_end());
    assert_true(write(STDOUT_FILENO, "|", 1) == 1); /* the read ends here, whatever came before */
    size_t had = 0;
    while (!had || got[had - 1] != '|') {
        ssize_t more = read(screen, got + had, sizeof got - had);
        assert_true(more > 0);
        had += (size_t)more;
    }
    assert_int_equal(had, len + 1);
    assert_memory_equal(got, want, len);
}

static void thoughts_are_dim(void **state)
{
    (void)state;
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    for (size_t n = 1; n < 40; n++) {
        shows(false, "<think>a<b></think>c", n, DIM "<think>a<b></think>" PLAIN "c");
        shows(false, " <think>a<</</think>c", n, " " DIM "<think>a<</</think>" PLAIN "c");
        shows(false, "<think>a", n, DIM "<think>a" PLAIN);
        shows(false, "<think>a</thi", n, DIM "<think>a</thi" PLAIN);
        shows(true, "a</think><think>b", n, DIM "a</think>" PLAIN "<think>b");
        shows(false, "<thin", n, "<thin");
        shows(false, "<thin air", n, "<thin air");
        shows(false, "a<think>b</think>", n, "a<think>b</think>");
        shows(false, "", n, "");
    }
}

static void others_get_the_text_alone(void **state)
{
    (void)state;
    setenv("TERM", "dumb", 1);
    shows(false, "<think>a</think>c", 3, "<think>a</think>c");
    setenv("TERM", "xterm", 1);
    setenv("NO_COLOR", "1", 1);
    shows(true, "a</think>c", 3, "a</think>c");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(thoughts_are_dim, make_terminal, leave_terminal),
        cmocka_unit_test_setup_teardown(others_get_the_text_alone, make_terminal, leave_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
