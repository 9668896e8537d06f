/* Long work of handlers beside the loop: tools/serve/aside.c. This thread is the clients'. */
#include "test.h"

#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/serve/aside.h"
#include "tools/serve/loop.h"

enum { LARGE = 1 << 20, MANY = 12 };

static struct loop loop;
static struct server server;
static char log_of[100]; /* a letter for each step: only one thread at a time writes */
static sem_t may_end;    /* the long work */

static void note(char c)
{
    size_t n = strlen(log_of);
    assert_true(n + 1 < sizeof log_of);
    log_of[n] = c;
}

static struct exchange exchange(size_t size)
{
    return (struct exchange){.server = &server, .size = size};
}

static void begin(struct exchange *x)
{
    memset(log_of, 0, sizeof log_of);
    loop = (struct loop){.open = x};
    server = (struct server){.loop = &loop};
    assert_int_equal(evutil_socketpair(AF_UNIX, SOCK_STREAM, 0, loop.pair), 0);
    assert_int_equal(sem_init(&may_end, 0, 0), 0);
}

static void end(void)
{
    assert_null(loop.asides);
    close(loop.pair[0]);
    close(loop.pair[1]);
    sem_destroy(&may_end);
}

/* What the loop does when it is woken. */
static void step(void)
{
    char byte;
    assert_int_equal(read(loop.pair[0], &byte, 1), 1);
    aside_step(&server);
}

static void work(void)
{
    aside_begin();
    while (sem_wait(&may_end) != 0)
        ;
    aside_end();
}

static void handle(struct exchange *x)
{
    (void)x;
    note('1');
    work();
    note('2');
    work();
    note('3');
}

static void the_loop_goes_on(void **state)
{
    struct exchange x = exchange(LARGE);
    (void)state;
    begin(&x);
    aside_run(&x, handle);
    note('a');
    aside_step(&server); /* the work is not done */
    sem_post(&may_end);
    step();
    note('b');
    assert_non_null(loop.asides);
    sem_post(&may_end);
    step();
    assert_string_equal(log_of, "1a2b3");
    end();
}

static void small_ones_are_handled_at_once(void **state)
{
    struct exchange x = exchange(100);
    (void)state;
    begin(&x);
    sem_post(&may_end);
    sem_post(&may_end);
    aside_run(&x, handle);
    assert_string_equal(log_of, "123");
    end();
}

/* More than there may be threads: the rest begins, in order, as others are done. */
static void many(void **state)
{
    struct exchange x[MANY];
    size_t count[3] = {0};
    (void)state;
    begin(NULL);
    for (size_t n = 0; n < MANY; n++) {
        x[n] = exchange(LARGE);
        aside_run(&x[n], handle);
        assert_int_equal(strlen(log_of), n < 8 ? n + 1 : 8);
    }
    for (int i = 0; i < 2 * MANY; i++)
        sem_post(&may_end);
    while (loop.asides)
        step();
    for (const char *c = log_of; *c; c++)
        count[*c - '1']++;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(count[i], MANY);
    end();
}

static void cancel(void *user) { note(*(char *)user); }

static char mark = 'c';

static void handle_later(struct exchange *x)
{
    work();
    x->gone = cancel; /* an answer has begun */
    x->user = &mark;
}

static void handle_nothing(struct exchange *x)
{
    (void)x;
    work();
}

/* The client goes while its request is read: the answer is cancelled once it has begun. */
static void the_client_goes(void **state)
{
    (void)state;
    for (int goes = 0; goes < 2; goes++) {
        struct exchange x = exchange(LARGE);
        begin(&x);
        aside_run(&x, handle_later);
        assert_non_null(x.gone);
        if (goes)
            x.gone(x.user);
        sem_post(&may_end);
        step();
        assert_string_equal(log_of, goes ? "c" : "");
        assert_ptr_equal(x.gone, cancel);
        end();
    }
    struct exchange x = exchange(LARGE);
    begin(&x);
    aside_run(&x, handle_nothing);
    sem_post(&may_end);
    step();
    assert_null(x.gone);
    end();
}

static void models_in_use(void **state)
{
    struct served m, other;
    struct exchange x = exchange(LARGE);
    (void)state;
    begin(&x);
    x.served = &m;
    assert_false(aside_uses(&server, &m));
    aside_run(&x, handle_nothing);
    assert_true(aside_uses(&server, &m));
    assert_false(aside_uses(&server, &other));
    sem_post(&may_end);
    step();
    assert_false(aside_uses(&server, &m));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loop_goes_on), cmocka_unit_test(small_ones_are_handled_at_once),
        cmocka_unit_test(many),             cmocka_unit_test(the_client_goes),
        cmocka_unit_test(models_in_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
