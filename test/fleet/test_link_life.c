// SPDX-License-Identifier: Apache-2.0
/*
 * test_link_life.c - how a link's connections begin and end: pauses, health, lost or refused, and closed at any moment.
 *
 * Times are the target's, a few milliseconds here. What is asserted of time is that something is not early, which no slow
 * machine can break.
 */
#include "fleet/link_rig.h"

/* ---- Ends ---------------------------------------------------------------------------------------------------------------- */

static void test_lost_is_told_from_refused(void **state)
{
    (void)state;
    struct rig rig;
    struct asked asked[3] = { 0 };
    rig_begin(&rig);
    assert_false(rig_send(&rig, &asked[0], PING)); /* not up */
    rig_greet(&rig);
    assert_true(rig_send(&rig, &asked[0], PING));
    rig_hear(&rig, PING);
    assert_true(rig_send(&rig, &asked[1], PING)); /* this turn's does not leave any more */
    link_reset(rig.link, "it says what it should not");
    assert_int_equal(asked[0].result, CARRIER_LOST);
    assert_int_equal(asked[1].result, CARRIER_REFUSED);
    assert_int_equal(rig.downs, 1);
    assert_string_equal(rig.why, "it says what it should not");
    assert_false(rig_send(&rig, &asked[2], PING));
    link_reset(rig.link, "nothing happens in a pause");
    assert_int_equal(rig.downs, 1);
    rig_hang_up(&rig);
    rig_greet(&rig); /* by itself */
    assert_int_equal(asked[0].done + asked[1].done, 2);
    rig_end(&rig);
}

/* The connection ends in the middle of a reply: what was answered whole is a reply, the rest is lost. */
static void test_a_reply_that_is_cut_off(void **state)
{
    (void)state;
    struct rig rig;
    struct asked asked[2] = { 0 };
    rig_begin(&rig);
    rig_greet(&rig);
    assert_true(rig_send(&rig, &asked[0], PING) && rig_send(&rig, &asked[1], PING));
    rig_hear(&rig, PING PING);
    rig_says(&rig, ":1\r\n$5\r\nhel");
    rig_hang_up(&rig);
    rig_until(&rig, rig.downs == 1);
    assert_string_equal(rig.why, "it closed the connection");
    assert_int_equal(asked[0].result, CARRIER_REPLY);
    assert_int_equal(asked[1].result, CARRIER_LOST);
    rig_greet(&rig);
    assert_true(
        rig_send(&rig, &asked[0], PING)); /* nothing of the old connection is in the way of the new one */
    rig_says(&rig, ":2\r\n");
    rig_until(&rig, rig.done == 3);
    assert_string_equal(asked[0].reply, ":2\r\n");
    rig_end(&rig);
}

static void test_nobody_listens(void **state)
{
    (void)state;
    struct rig rig;
    rig_prepare(&rig);
    rig_listen(&rig);
    (void)close(rig.listener);
    rig.listener = -1;
    int64_t began = rig_ms();
    rig_dial(&rig);
    rig_until(&rig, rig.downs == 4);
    assert_string_equal(rig.why, "connection refused");
    assert_true(rig_ms() - began
                >= (50 + 100 + 200) / 2 - 20); /* halves of the pauses; the loop counts whole ms */
    rig_end(&rig);
}

/* Somebody must change something: it is not asked again in a circle. */
static void test_a_wrong_password_is_not_tried_hot(void **state)
{
    (void)state;
    struct rig rig;
    rig_prepare(&rig);
    rig_listen(&rig);
    rig.target.password = "s3cret";
    rig_dial(&rig);
    rig_accept(&rig);
    rig_says(&rig, "-WRONGPASS invalid username-password pair\r\n");
    rig_until(&rig, rig.downs == 1);
    rig_hang_up(&rig);
    int64_t told = rig_ms();
    rig_accept(&rig);
    assert_true(rig_ms() - told
                >= LINK_PAUSE_MAX_MS / 2 - 20); /* the loop's clock counts whole ms and may be older */
    rig_says(&rig, HELLO_REPLY PONG);
    rig_until(&rig, rig.ups == 1);
    rig_end(&rig);
}

static void test_loading_passes(void **state)
{
    (void)state;
    struct rig rig;
    rig_begin(&rig);
    for (int i = 0; i < 3; i++) {
        rig_accept(&rig);
        rig_says(&rig, HELLO_REPLY "-LOADING Redis is loading the dataset in memory\r\n");
        rig_until(&rig, rig.downs == (unsigned)i + 1);
        rig_hang_up(&rig);
    }
    rig_greet(&rig);
    rig_end(&rig);
}

/* A store that gives cause at once, each time, is dialled after pauses that grow. */
static void on_up_reset(struct rig *rig)
{
    if (rig->ups <= 4)
        link_reset(rig->link, "READONLY");
}

static void test_resets_do_not_go_in_a_circle(void **state)
{
    (void)state;
    struct rig rig;
    rig_begin(&rig);
    rig.on_up = on_up_reset;
    int64_t began = rig_ms();
    for (int i = 0; i < 5; i++) {
        rig_greet(&rig);
        if (i < 4)
            rig_hang_up(&rig);
    }
    assert_true(rig_ms() - began >= (50 + 100 + 200 + 400) / 2 - 20);
    assert_int_equal(rig.downs, 4);
    rig_end(&rig);
}

/* ---- Time ------------------------------------------------------------------------------------------------------------------ */

static void test_who_never_answers_the_greeting(void **state)
{
    (void)state;
    struct rig rig;
    rig_prepare(&rig);
    rig_listen(&rig);
    rig.target.dial_ms = 30;
    rig_dial(&rig);
    rig_accept(&rig);
    rig_until(&rig, rig.downs == 1);
    assert_string_equal(rig.why, "it did not answer the greeting in time");
    rig_hang_up(&rig);
    rig_accept(&rig); /* it dials again */
    rig_end(&rig);
}

/* A queue of connections that is full swallows the next one: nothing answers, nothing refuses. */
static void test_who_never_accepts(void **state)
{
    (void)state;
    struct rig rig;
    int fillers[4];
    rig_prepare(&rig);
    rig_listen(&rig);
    assert_int_equal(listen(rig.listener, 0), 0);
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons(rig.target.port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    for (size_t i = 0; i < COUNT_OF(fillers); i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(fillers[i], (struct sockaddr *)&address, sizeof address);
    }
    rig.target.dial_ms = 30;
    rig_dial(&rig);
    rig_until(&rig, rig.downs == 1);
    assert_true(strcmp(rig.why, "connection timed out") == 0
                || strcmp(rig.why, "it could not be reached in time") == 0);
    for (size_t i = 0; i < COUNT_OF(fillers); i++)
        (void)close(fillers[i]);
    rig_end(&rig);
}

/* A store that has gone without a word: it is asked once, then given up. */
static void test_a_connection_on_which_nothing_comes_is_given_up(void **state)
{
    (void)state;
    struct rig rig;
    struct asked asked = { 0 };
    rig_prepare(&rig);
    rig_listen(&rig);
    rig.target.quiet_ms = 20;
    rig_dial(&rig);
    rig_greet(&rig);
    assert_true(rig_send(&rig, &asked, "*1\r\n$4\r\nTIME\r\n"));
    rig_until(&rig, rig.downs == 1);
    assert_string_equal(rig.why, "it has not answered for too long");
    assert_int_equal(asked.result, CARRIER_LOST);
    rig_hear(&rig, "*1\r\n$4\r\nTIME\r\n" PING);
    rig_hear_nothing(&rig);
    rig_end(&rig);
}

/* Who answers PING lives, however little there is to say; what answers PING is heard, and told to nobody. */
static void test_a_connection_that_is_idle_lives(void **state)
{
    (void)state;
    struct rig rig;
    struct asked asked = { 0 };
    rig_prepare(&rig);
    rig_listen(&rig);
    rig.target.quiet_ms = 20;
    rig_dial(&rig);
    rig_greet(&rig);
    for (unsigned i = 0; i < 6; i++) {
        rig_hear(&rig, PING);
        rig_says(&rig, PONG);
        rig_until(&rig, rig.heards == i + 1);
    }
    assert_true(rig_send(&rig, &asked, "*1\r\n$4\r\nTIME\r\n"));
    rig_hear(&rig, "*1\r\n$4\r\nTIME\r\n");
    rig_says(&rig, ":1\r\n");
    rig_until(&rig, rig.done == 1);
    assert_int_equal(rig.downs, 0);
    rig_end(&rig);
}

/* ---- Closed at any moment ------------------------------------------------------------------------------------------------------ */

static void close_in(struct rig *rig)
{
    link_close(rig->link);
}

static void reset_in(struct rig *rig)
{
    link_reset(rig->link, "reset");
}

static void close_in_done(struct asked *asked)
{
    close_in(asked->command.owner);
}

static void reset_in_done(struct asked *asked)
{
    reset_in(asked->command.owner);
}

static void send_in_done(struct asked *asked)
{
    static struct asked next;
    asked->then = NULL;
    next = (struct asked){ 0 };
    (void)rig_send(asked->command.owner, &next, PING); /* refused after the end, in order before it */
}

enum moment { AT_DIAL, AT_GREETING, AT_UP, AT_DOWN, AT_PUSH, AT_HEARD, AT_REPLY, AT_LOSS, MOMENT_COUNT };

/* Four commands are under way, replies and a push lie in the buffer, and at that moment the link is closed or reset. */
static void end_at(enum moment moment, void (*act)(struct rig *rig), void (*act_in_done)(struct asked *asked))
{
    struct rig rig;
    struct asked asked[4] = { 0 };
    rig_begin(&rig);
    if (moment == AT_DIAL)
        act(&rig);
    rig.on_up = moment == AT_UP ? act : NULL;
    rig.on_down = moment == AT_DOWN ? act : NULL;
    rig.on_push = moment == AT_PUSH ? act : NULL;
    rig.on_heard = moment == AT_HEARD ? act : NULL;
    for (int i = 0; i < 4 && moment != AT_DIAL && !rig_has_peer(&rig); i++)
        rig_step(&rig);
    if (moment == AT_GREETING) {
        rig_step(&rig);
        act(&rig);
    }
    if (moment >= AT_UP)
        rig_greet(&rig);
    for (size_t i = 0; moment > AT_UP && i < COUNT_OF(asked); i++)
        assert_true(rig_send(&rig, &asked[i], PING));
    asked[1].then = moment == AT_REPLY || moment == AT_LOSS ? act_in_done : NULL;
    if (moment > AT_UP) {
        rig_step(&rig);
        if (moment != AT_LOSS)
            rig_says(&rig, ":0\r\n:1\r\n>1\r\n+push\r\n:2\r\n");
        rig_hang_up(&rig);
        rig_until(&rig, rig.done >= COUNT_OF(asked));
    }
    for (int i = 0; i < 5; i++)
        rig_step(&rig);
    for (size_t i = 0; moment > AT_UP && i < COUNT_OF(asked); i++)
        assert_int_equal(asked[i].done, 1);
    if (moment == AT_HEARD || (moment == AT_REPLY && act_in_done != send_in_done))
        assert_int_equal(rig.pushes, 0); /* what else lies in the buffer is not told */
    if (act == close_in)
        assert_int_equal(rig.downs, moment == AT_DOWN); /* nothing comes after link_close() */
    rig.on_up = rig.on_down = rig.on_push = rig.on_heard = NULL;
    if (act != close_in)
        link_close(rig.link); /* else its memory may have gone */
    rig_until(&rig, rig.is_closed);
    rig_leave(&rig);
}

static void test_closed_or_reset_at_any_moment(void **state)
{
    (void)state;
    for (enum moment moment = AT_DIAL; moment < MOMENT_COUNT; moment++) {
        end_at(moment, close_in, close_in_done);
        end_at(moment, reset_in, reset_in_done);
    }
    end_at(AT_REPLY, reset_in, send_in_done);
    end_at(AT_LOSS, reset_in, send_in_done);
}

static void test_several_links_on_one_loop(void **state)
{
    (void)state;
    struct rig rig, other;
    struct asked asked[2] = { 0 };
    rig_begin(&rig);
    rig_greet(&rig);
    memset(&other, 0, sizeof other);
    other.peer = -1;
    rig_listen(&other);
    assert_int_equal(link_open(&other.link, &rig.loop, &other.target, &rig_events, &other, 7), 0);
    int64_t end = rig_ms() + 10000;
    while (!rig_has_peer(&other) && rig_ms() < end)
        rig_step(&rig);
    rig_says(&other, HELLO_REPLY PONG);
    rig_until(&rig, other.ups == 1);
    assert_true(rig_send(&rig, &asked[0], PING));
    asked[1].command = (struct link_command){ .done = rig_on_done, .owner = &other };
    assert_true(link_send(other.link, SLICE(PING), 1, &asked[1].command));
    rig_says(&other, ":2\r\n");
    rig_until(&rig, other.done == 1);
    assert_int_equal(rig.done, 0);
    link_close(other.link);
    rig_until(&rig, other.is_closed);
    rig_says(&rig, ":1\r\n");
    rig_until(&rig, rig.done == 1);
    (void)close(other.peer);
    (void)close(other.listener);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lost_is_told_from_refused),
        cmocka_unit_test(test_a_reply_that_is_cut_off),
        cmocka_unit_test(test_nobody_listens),
        cmocka_unit_test(test_a_wrong_password_is_not_tried_hot),
        cmocka_unit_test(test_loading_passes),
        cmocka_unit_test(test_resets_do_not_go_in_a_circle),
        cmocka_unit_test(test_who_never_answers_the_greeting),
        cmocka_unit_test(test_who_never_accepts),
        cmocka_unit_test(test_a_connection_on_which_nothing_comes_is_given_up),
        cmocka_unit_test(test_a_connection_that_is_idle_lives),
        cmocka_unit_test(test_closed_or_reset_at_any_moment),
        cmocka_unit_test(test_several_links_on_one_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
