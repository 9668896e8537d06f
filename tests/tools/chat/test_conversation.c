/* After /undo, /retry, /clear and /system, the session has the same bits as one that gets the
   remaining messages anew, and computes no token again that it still holds. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <string.h>

#include "folder.h"
#include "more_toys.h"
#include "tools/chat/conversation.h"

#define TEMPLATE                                                                                   \
    "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + '\n' }}{% endfor %}"           \
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"

static const struct toy plain = {.arch = "llama",
                                 .n_ctx = 640,
                                 .n_embd = 24,
                                 .n_layer = 2,
                                 .n_head = 6,
                                 .n_head_kv = 2,
                                 .head_dim = 20,
                                 .n_ff = 32,
                                 .n_rot = 20,
                                 .type = TFT_F32};

/* A conversation with a toy that can talk. */
static void begin(struct conversation *c, const struct toy *toy, const char *kv, const char *system)
{
    struct toy t = *toy;
    struct tft_model *m;
    struct tft_error err;
    const char *path = in_folder("toy");
    t.n_vocab = TOY_VOCAB;
    t.vocab = "llama";
    t.endless = true;
    t.chat_template = t.chat_template ? t.chat_template : TEMPLATE;
    assert_true(toy_write(&t, path));
    if (tft_model_open(&m, path, NULL, &err) != TFT_OK)
        fail_msg("%s: %s", t.arch, err.msg);
    cli_session_options.kv = kv;
    *c = (struct conversation){.x = {.m = m, .format = template_choose(m, path, false)},
                               .sampler = {.temperature = 1, .seed = 7},
                               .n_tokens = 24,
                               .think_budget = -1};
    assert_non_null(c->x.format);
    assert_int_equal(conversation_open(c, system, path), CLI_OK);
}

static void end(struct conversation *c)
{
    struct tft_model *m = (struct tft_model *)(uintptr_t)c->x.m;
    conversation_close(c);
    tft_model_close(m);
}

static void say(struct conversation *c, const char *text)
{
    assert_int_equal(conversation_say(c, text, strlen(text)), CLI_OK);
}

/* Checks that the logits equal the logits of a session that gets the same tokens for the first
   time. */
static void assert_as_if_anew(struct conversation *c)
{
    struct tft_session *s = NULL;
    struct tft_session_opts o = {0};
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(c->x.m, &info);
    assert_int_equal(cli_open_session(&s, c->x.m, &o), CLI_OK);
    assert_int_equal(tft_prefill(s, tft_tokens(c->x.s), tft_pos(c->x.s)), TFT_OK);
    assert_memory_equal(tft_logits(s, 0), tft_logits(c->x.s, 0), info.n_vocab * sizeof(float));
    tft_session_close(s);
}

/* ---- the tests */

static void goes_back(const struct toy *toy, const char *kv)
{
    struct conversation c;
    begin(&c, toy, kv, "once upon");
    say(&c, "hello");
    size_t first = tft_pos(c.x.s);
    say(&c, "hello world, once upon a time and the end");
    assert_int_equal(conversation_retry(&c), CLI_OK);
    assert_int_equal(c.x.said.n, 5);
    assert_int_equal(c.last.n_held, c.last.n_prompt - 1);
    assert_as_if_anew(&c);
    size_t whole = tft_pos(c.x.s);

    assert_int_equal(conversation_undo(&c), CLI_OK);
    assert_int_equal(c.x.said.n, 3);
    size_t kept = tft_pos(c.x.s);
    assert_in_range(kept, first / 2, whole - 24); /* the answer is cut into tokens again */
    say(&c, "the time");
    assert_int_equal(c.last.n_held, kept);
    assert_as_if_anew(&c);

    assert_int_equal(context_set_system(&c.x, "the world"), CLI_OK);
    assert_in_range(tft_pos(c.x.s), 1, 20);
    assert_int_equal(conversation_retry(&c), CLI_OK);
    assert_as_if_anew(&c);
    assert_int_equal(conversation_clear(&c), CLI_OK);
    assert_int_equal(c.x.said.n, 1);
    assert_in_range(tft_pos(c.x.s), 10, 40); /* the system message */
    say(&c, "hello");
    assert_as_if_anew(&c);
    end(&c);
}

static void every_architecture_goes_back(void **state)
{
    (void)state;
    goes_back(&plain, NULL);
    for (size_t i = 0; i < sizeof more_toys / sizeof *more_toys; i++)
        goes_back(&more_toys[i], NULL);
}

static void quantized_caches_go_back(void **state)
{
    (void)state;
    static const char *const kv[] = {"kivi:window=48,bits=4", "logquant:window=21",
                                     "k=8@token,v=16,group=16,retain=window:5", "f32"};
    for (size_t i = 0; i < sizeof kv / sizeof *kv; i++)
        goes_back(&plain, kv[i]);
}

static void an_answer_is_drawn_anew(void **state)
{
    (void)state;
    struct conversation c;
    begin(&c, &plain, NULL, NULL);
    say(&c, "hello");
    char first[256];
    size_t n = c.last.text.n;
    assert_in_range(n, 1, sizeof first);
    memcpy(first, c.last.text.p, n);
    assert_int_equal(conversation_retry(&c), CLI_OK);
    assert_true(n != c.last.text.n || memcmp(first, c.last.text.p, n) != 0);
    end(&c);
}

/* A message too long for any context leaves the conversation as it was: no older message is
   dropped. */
static void a_message_that_never_fits_drops_nothing(void **state)
{
    (void)state;
    struct conversation c;
    static char text[4000];
    memset(text, 'x', sizeof text - 1);
    begin(&c, &more_toys[0], NULL, NULL);
    say(&c, "hello");
    say(&c, "once");
    size_t n = c.x.said.n;
    assert_int_equal(n, 4);
    assert_int_equal(conversation_say(&c, text, strlen(text)), CLI_FAILED);
    assert_int_equal(c.x.said.n, n);
    assert_int_equal(conversation_undo(&c), CLI_OK);
    assert_int_equal(conversation_undo(&c), CLI_OK);
    end(&c);
}

static void a_conversation_that_is_undone_is_empty(void **state)
{
    (void)state;
    struct conversation c;
    begin(&c, &plain, NULL, NULL);
    assert_int_equal(conversation_undo(&c), CLI_FAILED);
    assert_int_equal(conversation_retry(&c), CLI_FAILED);
    say(&c, "hello");
    assert_int_equal(conversation_undo(&c), CLI_OK);
    assert_int_equal(c.x.said.n, 0);
    assert_int_equal(tft_pos(c.x.s), 0);
    assert_null(messages_system(&c.x.said));
    assert_int_equal(context_set_system(&c.x, "the end"), CLI_OK);
    say(&c, "hello");
    assert_as_if_anew(&c);
    assert_int_equal(messages_system(&c.x.said)->n, 7);
    assert_int_equal(c.x.said.n, 3);
    end(&c);
}

/* ---- tools */

#define WITH_CALLS                                                                                 \
    "{% for t in tools or [] %}{{ t.name }}{% endfor %}{% for m in messages %}{{ '<|' + m.role + " \
    "'|>\n' + m.content }}{% for c in m.tool_calls %}{{ '<tool_call>' + c.function.name }}"        \
    "{% endfor %}"                                                                                 \
    "{{ '\n' }}{% endfor %}{{ '<|assistant|>\n' }}"

static const char declared[] = "[{\"name\": \"once\"}]";

/* Makes a call: as often as *user says, and then fails. */
static int call(void *user, const struct template_message *x, struct cli_text *out)
{
    int *left = user;
    assert_int_equal(x->role, TEMPLATE_ASSISTANT);
    assert_int_equal(x->name.n, 4);
    assert_memory_equal(x->arguments.p, "{}", 2);
    if (!(*left)--)
        return CLI_FAILED;
    return cli_text_append(out, "upon a time", 11) ? CLI_OK : CLI_FAILED;
}

static void begin_with_tools(struct conversation *c, struct tools *t, int *left)
{
    struct toy toy = plain;
    toy.n_ctx = 2000;
    toy.chat_template = WITH_CALLS;
    begin(c, &toy, NULL, "once upon");
    *t = (struct tools){.path = "tools", .shown.json = declared};
    assert_int_equal(tft_chat_tools_open(&t->declared, declared, sizeof declared - 1,
                                         template_calls(c->x.format), 0, NULL),
                     TFT_OK);
    c->x.o.tools = &t->shown;
    c->n_tokens = 200;
    c->tools = (struct conversation_tools){
        .list = t, .choice = TFT_CHAT_REQUIRED, .most = 2, .call = call, .user = left};
}

/* A turn with a call is undone and tried again as a whole. */
static void calls_go_back(void **state)
{
    (void)state;
    struct conversation c;
    struct tools t;
    int left = 100;
    begin_with_tools(&c, &t, &left);
    say(&c, "hello");
    assert_as_if_anew(&c);
    size_t n = c.x.said.n;
    assert_true(n >= 5 && n <= 7); /* one call at least, and two at most */
    assert_int_equal(c.x.said.p[2].name.n, 4);
    assert_int_equal(c.x.said.p[3].role, TEMPLATE_TOOL);
    say(&c, "the time");
    assert_as_if_anew(&c);
    size_t whole = tft_pos(c.x.s);
    assert_int_equal(conversation_retry(&c), CLI_OK);
    assert_as_if_anew(&c);
    assert_int_equal(conversation_undo(&c), CLI_OK);
    assert_int_equal(c.x.said.n, n);
    assert_true(tft_pos(c.x.s) < whole);
    say(&c, "the end");
    assert_as_if_anew(&c);
    assert_int_equal(conversation_undo(&c), CLI_OK);
    assert_int_equal(conversation_undo(&c), CLI_OK);
    assert_int_equal(c.x.said.n, 1);
    end(&c);
    tft_chat_tools_close(t.declared);
}

/* Where a call fails, a new turn is forgotten, and a turn that was tried again stays. */
static void a_call_that_fails_changes_nothing(void **state)
{
    (void)state;
    struct conversation c;
    struct tools t;
    int left = 0;
    begin_with_tools(&c, &t, &left);
    assert_int_equal(conversation_say(&c, "hello", 5), CLI_FAILED);
    assert_int_equal(c.x.said.n, 1);
    left = 100;
    say(&c, "hello");
    struct messages *m = &c.x.said;
    size_t n = m->n;
    const char *kept = m->p[n - 1].text.p;
    left = 0;
    assert_int_equal(conversation_retry(&c), CLI_FAILED);
    assert_int_equal(m->n, n);
    assert_ptr_equal(m->p[n - 1].text.p, kept);
    assert_int_equal(m->p[2].name.n, 4);
    left = 100;
    say(&c, "the time");
    assert_as_if_anew(&c);
    end(&c);
    tft_chat_tools_close(t.declared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_architecture_goes_back),
        cmocka_unit_test(quantized_caches_go_back),
        cmocka_unit_test(an_answer_is_drawn_anew),
        cmocka_unit_test(a_message_that_never_fits_drops_nothing),
        cmocka_unit_test(a_conversation_that_is_undone_is_empty),
        cmocka_unit_test(calls_go_back),
        cmocka_unit_test(a_call_that_fails_changes_nothing),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
