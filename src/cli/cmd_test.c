// SPDX-License-Identifier: Apache-2.0
/*
 * cmd_test.c - `weir test`: plays test files and sums up.
 */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/player_http.h"
#include "sim/play.h"

static const char about[] = "Play the timelines of FILEs in virtual time and compare each decision with what\n"
                            "its step expects; weir-test(5) describes the form. One line per file and one for\n"
                            "all; a step that fails is told with the state that explains it.\n";

/* A person is told how far it is after this long, and then so often. */
#define QUIET_NS (2 * WEIR_SECOND)
#define PROGRESS_NS (WEIR_SECOND / 5)

struct session {
    struct play play;
    uint64_t next_progress; /* on the monotonic clock */
    bool shows_progress, has_shown;
    int files, failed_files;
};

/* `play` is the first member. */
static void on_progress(struct play *play)
{
    struct session *session = (struct session *)play;
    uint64_t now = clock_monotonic();
    if (!session->shows_progress || now < session->next_progress)
        return;
    session->next_progress = now + PROGRESS_NS;
    session->has_shown = true;
    fprintf(stderr, "\r%d files, %" PRIu64 " decisions ", session->files, play->decisions);
    (void)fflush(stderr); /* nobody depends on it */
}

static void clear_progress(struct session *session)
{
    if (session->has_shown)
        fprintf(stderr, "\r%60s\r", "");
    session->has_shown = false;
}

/* Play one file. Gives its exit status. */
static int play_file(struct session *session, const char *path)
{
    struct play *play = &session->play;
    uint64_t steps = play->steps;
    uint64_t decisions = play->decisions;
    uint64_t failed = play->failed_steps;
    session->files++;
    struct timeline *timeline = timeline_load(path, stderr, wants_colour(stderr));
    if (timeline == NULL)
        return EXIT_WRONG;
    enum player_result result = play_timeline(play, timeline);
    timeline_free(timeline);
    clear_progress(session);
    steps = play->steps - steps;
    decisions = play->decisions - decisions;
    failed = play->failed_steps - failed;

    const char *colour = play->is_coloured ? (failed > 0 ? "\033[31m" : "\033[32m") : "";
    const char *plain = play->is_coloured ? "\033[0m" : "";
    if (result == PLAYER_OK)
        printf("%s%s%s %s: %" PRIu64 " steps, %" PRIu64 " decisions", colour, failed > 0 ? "FAIL" : "ok", plain,
               path, steps, decisions);
    if (result == PLAYER_OK && failed > 0)
        printf(", %" PRIu64 " failed", failed);
    if (result == PLAYER_OK)
        putchar('\n');
    if (result == PLAYER_UNREACHABLE)
        return EXIT_UNDECIDED;
    return result == PLAYER_FAULTY ? EXIT_WRONG : failed > 0 ? EXIT_NO : EXIT_YES;
}

static int play_files(struct session *session, char **paths, int count)
{
    int status = EXIT_YES;
    for (int i = 0; i < count; i++) {
        int own = play_file(session, paths[i]);
        session->failed_files += own != EXIT_YES;
        status = own > status ? own : status;
    }
    printf("%d file%s, %" PRIu64 " steps, %" PRIu64 " decisions: ", session->files,
           session->files == 1 ? "" : "s", session->play.steps, session->play.decisions);
    if (session->failed_files == 0)
        printf("all as expected\n");
    else
        printf("%d file%s failed\n", session->failed_files, session->failed_files == 1 ? "" : "s");
    return status;
}

#ifdef WEIR_TEST_HOOKS
static void tell_said(const struct player_http *http)
{
    printf("said at the door: %" PRIu64 "\n", http->said);
    for (const struct player_unsaid *row = http->unsaid; row->count > 0; row++)
        printf("asked by HTTP: %" PRIu64 ", %s\n", row->count, row->why);
}

/* PLAYER_DOORS: there is none of this name. */
static enum player_door find_door(const char *name)
{
    enum player_door door = PLAYER_HTTP;
    while (door < PLAYER_DOORS && strcmp(name, player_door_name(door)) != 0)
        door++;
    return door;
}
#endif

int cmd_test(int argc, char **argv)
{
    const char *door = NULL;
    const struct option options[] = {
        { OPTION_TEXT, "door", "NAME", "play through a door: http, resp, grpc", &door, 0, 0 },
    };
    /* Only the test build's server can be told what time it is. */
#ifdef WEIR_TEST_HOOKS
    static struct player_http http;
    const size_t option_count = sizeof options / sizeof *options;
#else
    const size_t option_count = 0;
#endif
    const struct usage usage = { "test", "FILE...", about, options, option_count };
    int status;
    int count = options_parse(&usage, argc, argv, &status);
    if (count < 0)
        return status;
    if (count == 0) {
        complain("test", "no test file; name one: weir test FILE...");
        return EXIT_WRONG;
    }
    struct player_library library;
    struct player *player = &library.player;
    player_library_init(&library);
#ifdef WEIR_TEST_HOOKS
    enum player_door found = door == NULL ? PLAYER_HTTP : find_door(door);
    if (found == PLAYER_DOORS) {
        complain("test", "--door %.40s: there are http, resp and grpc", door);
        return EXIT_WRONG;
    }
    player_http_init(&http, found);
    if (door != NULL)
        player = &http.player;
#endif
    struct session session = { .play = { .player = player,
                                         .out = stdout,
                                         .err = stderr,
                                         .is_coloured = wants_colour(stdout),
                                         .on_progress = on_progress },
                               .next_progress = clock_monotonic() + QUIET_NS,
                               .shows_progress = wants_colour(stderr) };
    status = play_files(&session, argv + 1, count);
#ifdef WEIR_TEST_HOOKS
    if (found != PLAYER_HTTP)
        tell_said(&http);
#endif
    return status;
}
