// SPDX-License-Identifier: Apache-2.0
/*
 * cmd_check.c - `weir check`: one request, decided here or by a running server.
 *
 * Here: from a fresh state, and all --times at one instant, so that a boundary shows the same on any machine. Only what waits
 * moves that instant on.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/attempts.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/remote.h"
#include "cli/request.h"
#include "cli/waiting.h"
#include "sim/verdict.h"
#include "wire/answer.h"

static const char about[] = "Decide a request by CONTRACT, from a fresh state, or ask a running server. One\n"
                            "line per decision. Here all are at one instant, but --wait waits in real time.\n"
                            "URL is http://HOST:PORT or unix:PATH. Permits are only looked at.\n";

/* Longest secret of a tokens file's line that is worth sending. */
#define SECRET_MAX 1024

struct check {
    struct cli_request request;
    const char *contract_path, *server_url, *token_file;
    uint64_t cost, times;
    weir_ns wait; /* WEIR_NO_TIME: not given */
    bool is_peek, is_json, retries;
};

/* Worst of the decisions so far: 3 if any was refused, else 1 if any did not pass. */
static int status_with(int status, enum weir_outcome outcome)
{
    bool passes = outcome == WEIR_ALLOW || outcome == WEIR_UNMETERED || outcome == WEIR_DUPLICATE;
    int own = passes ? EXIT_YES : outcome == WEIR_REFUSED ? EXIT_UNDECIDED : EXIT_NO;
    return own > status ? own : status;
}

static void print_verdict(const struct verdict *verdict)
{
    char line[VERDICT_TEXT_MAX], time[VERDICT_TIME_MAX];
    fputs(verdict_text(&verdict->bound, WEIR_MILLISECOND, line), stdout);
    if (verdict->waited > 0 && verdict->waited != WEIR_NO_TIME)
        printf(" waited=%s", verdict_time(verdict->waited, WEIR_MILLISECOND, time));
    putchar('\n');
}

/* ---- Here ------------------------------------------------------------------------------------------------ */

static void print_json(const struct weir_answer *answer, weir_ns now, weir_ns waited)
{
    char json[ANSWER_JSON_MAX];
    struct text text = text_of(json, sizeof json);
    const struct answer_beside beside = { .has_waited = waited > 0, .waited = waited };
    answer_json(&text, answer, &beside, now);
    printf("%.*s\n", (int)text.len, text.at);
}

static int decide_here(const struct check *check, const struct weir_contract *contract,
                       const struct weir_request *request)
{
    int status = EXIT_YES;
    weir_ns now = cli_now();
    for (uint64_t i = 0; i < check->times; i++) {
        struct weir_answer answer;
        weir_ns waited;
        int error = waiting_decide(contract, request, &now, &answer, &waited);
        if (error != 0) {
            struct weir_fault fault = { 0, "" };
            if (error == WEIR_ERR_ATTRIBUTE && weir_contract_validate(contract, request, &fault) != 0)
                complain("check", "%s", fault.message);
            else
                complain("check", "%s", weir_error_text(error));
            return EXIT_WRONG;
        }
        struct verdict verdict;
        verdict_from_answer(&answer, now, &verdict);
        verdict.waited = waited;
        if (check->is_json)
            print_json(&answer, now, waited);
        else
            print_verdict(&verdict);
        (void)fflush(stdout); /* the next line may be a while */
        status = status_with(status, answer.decision.outcome);
    }
    return status;
}

static int check_here(const struct check *check, const struct weir_request *request)
{
    struct weir_contract *contract = contract_open("check", check->contract_path, false);
    if (contract == NULL)
        return EXIT_WRONG;
    if (weir_contract_has_shared(contract))
        tell("weir check: limits of scope: fleet are counted in this process alone; a server with --store "
             "shares them");
    int status = decide_here(check, contract, request);
    weir_contract_free(contract);
    return status;
}

/* ---- A server -------------------------------------------------------------------------------------------- */

/* Read the secret of --token-file: its first line. */
static bool token_read(const char *path, char out[SECRET_MAX + 1])
{
    FILE *file = fopen(path, "re");
    size_t len = file == NULL ? 0 : fread(out, 1, SECRET_MAX, file);
    bool is_read = file != NULL && ferror(file) == 0;
    if (!is_read)
        complain("check", "--token-file %.200s: %s", path, strerror(errno));
    if (file != NULL)
        (void)fclose(file); /* it was only read */
    if (!is_read)
        return false;
    out[len] = '\0';
    out[strcspn(out, "\r\n")] = '\0';
    return true;
}

/* Make the field line that carries the token, if there is one. */
static bool token_field(const struct check *check, char *out, size_t cap)
{
    char storage[SECRET_MAX + 1];
    const char *token = getenv("WEIR_TOKEN");
    out[0] = '\0';
    if (check->token_file != NULL) {
        if (!token_read(check->token_file, storage))
            return false;
        token = storage;
    }
    if (token == NULL || token[0] == '\0')
        return check->token_file == NULL || (complain("check", "--token-file: the file is empty"), false);
    for (const char *c = token; *c != '\0'; c++)
        if ((unsigned char)*c <= 0x20 || (unsigned char)*c >= 0x7f) {
            complain("check", "the token holds a blank or a byte that is not ASCII; give the secret alone");
            return false;
        }
    if (strlen(token) > SECRET_MAX) {
        complain("check", "the token is longer than %d bytes", SECRET_MAX);
        return false;
    }
    (void)snprintf(out, cap, "Authorization: Bearer %s\r\n", token);
    return true;
}

static int check_there(const struct check *check, const struct weir_request *request)
{
    static struct client client; /* too large for the stack */
    char field[SECRET_MAX + 64];
    if (!client_init(&client, check->server_url)) {
        complain("check", "--server %s", client.error);
        return EXIT_WRONG;
    }
    if (!token_field(check, field, sizeof field))
        return EXIT_WRONG;

    int status = EXIT_YES;
    for (uint64_t i = 0; i < check->times && status != EXIT_WRONG; i++) {
        struct verdict verdict;
        struct slice json;
        struct remote_end end;
        enum remote_result result = check->retries
                                        ? attempts_ask(&client, field, request, check->wait, &verdict, &json)
                                        : remote_ask(&client, field, request, &verdict, &json, &end);
        if (result != REMOTE_DECIDED) {
            complain("check", "%s", client.error);
            status = result == REMOTE_FAULTY ? EXIT_WRONG : EXIT_UNDECIDED;
            break;
        }
        if (check->is_json)
            printf("%.*s\n", (int)json.len, json.at);
        else
            print_verdict(&verdict);
        (void)fflush(stdout);
        status = status_with(status, verdict.bound.outcome);
    }
    client_close(&client);
    return status;
}

/* Whether what was asked for fits together. */
static bool is_coherent(const struct check *check)
{
    if (check->server_url != NULL && check->contract_path != NULL)
        complain("check", "'%.200s' and --server: the server has its own contract; give one of them",
                 check->contract_path);
    else if (check->is_peek && check->wait != WEIR_NO_TIME)
        complain("check", "--peek and --wait: a look tells how things are now; give one of them");
    else if (check->is_peek && check->retries)
        complain("check", "--peek and --retry: a look tells how things are now; give one of them");
    else if (check->retries && check->server_url == NULL)
        complain("check",
                 "--retry: a decision made here is not made anew by asking again; give --server, or --wait");
    else
        return true;
    return false;
}

int cmd_check(int argc, char **argv)
{
    struct check check = { .cost = 1, .times = 1, .wait = WEIR_NO_TIME };
    const struct option options[] = {
        { OPTION_TEXT, "server", "URL", "ask this server", &check.server_url, 0, 0 },
        { OPTION_TEXT, "token-file", "FILE", "its token; else WEIR_TOKEN", &check.token_file, 0, 0 },
        { OPTION_NUMBER, "cost", "N", "tokens; 0 looks", &check.cost, 0, INT64_MAX },
        { OPTION_NUMBER, "times", "N", "decide so often, a line each", &check.times, 1, 1000000000 },
        { OPTION_FLAG, "peek", NULL, "charge nothing", &check.is_peek, 0, 0 },
        { OPTION_DURATION, "wait", "DURATION", "wait for so long where limits allow", &check.wait, 0,
          WEIR_WAIT_MAX },
        { OPTION_FLAG, "retry", NULL, "ask the server again when it says", &check.retries, 0, 0 },
        { OPTION_FLAG, "json", NULL, "one JSON object a line", &check.is_json, 0, 0 },
    };
    const struct usage usage = { "check", "[CONTRACT] NAME=VALUE...", about, options,
                                 sizeof options / sizeof *options };
    int status;
    int operands = options_parse(&usage, argc, argv, &status);
    if (operands < 0)
        return status;
    cli_request_init(&check.request);
    if (!cli_request_read_operands(&check.request, "check", argv + 1, operands, &check.contract_path))
        return EXIT_WRONG;
    /* A contract that was named wins over WEIR_SERVER in the environment, as an option would. */
    if (check.contract_path != NULL && check.server_url == getenv("WEIR_SERVER"))
        check.server_url = NULL;
    if (!is_coherent(&check))
        return EXIT_WRONG;
    const struct weir_request request = { .attributes = check.request.attributes,
                                          .attribute_count = check.request.count,
                                          .cost = check.cost,
                                          .is_peek = check.is_peek,
                                          .wait = check.wait == WEIR_NO_TIME ? 0 : check.wait };
    return check.server_url != NULL ? check_there(&check, &request) : check_here(&check, &request);
}
