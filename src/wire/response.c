// SPDX-License-Identifier: Apache-2.0
/*
 * response.c - the HTTP envelope of answer.h: status line, fields, length, body.
 *
 * A body's length stands in front of it, so bodies are written aside first, on the stack, and copied behind the
 * head; an auth door that allows has none, and pays for none.
 */
#include "wire/answer.h"

static const struct {
    unsigned status;
    const char *reason;
    struct slice line;
} statuses[] = {
#define ROW(status, reason) \
    { \
        status, reason, \
        { \
            "HTTP/1.1 " #status " " reason "\r\n", sizeof(reason) + 14 \
        } \
    }
    ROW(200, "OK"),
    ROW(204, "No Content"),
    ROW(400, "Bad Request"),
    ROW(401, "Unauthorized"),
    ROW(402, "Payment Required"),
    ROW(403, "Forbidden"),
    ROW(404, "Not Found"),
    ROW(405, "Method Not Allowed"),
    ROW(406, "Not Acceptable"),
    ROW(408, "Request Timeout"),
    ROW(409, "Conflict"),
    ROW(410, "Gone"),
    ROW(411, "Length Required"),
    ROW(412, "Precondition Failed"),
    ROW(413, "Content Too Large"),
    ROW(414, "URI Too Long"),
    ROW(415, "Unsupported Media Type"),
    ROW(416, "Range Not Satisfiable"),
    ROW(417, "Expectation Failed"),
    ROW(421, "Misdirected Request"),
    ROW(422, "Unprocessable Content"),
    ROW(423, "Locked"),
    ROW(424, "Failed Dependency"),
    ROW(425, "Too Early"),
    ROW(428, "Precondition Required"),
    ROW(429, "Too Many Requests"),
    ROW(431, "Request Header Fields Too Large"),
    ROW(451, "Unavailable For Legal Reasons"),
    ROW(500, "Internal Server Error"),
    ROW(501, "Not Implemented"),
    ROW(502, "Bad Gateway"),
    ROW(503, "Service Unavailable"),
    ROW(504, "Gateway Timeout"),
    ROW(505, "HTTP Version Not Supported"),
#undef ROW
};

const char *answer_reason(unsigned status)
{
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i].status == status)
            return statuses[i].reason;
    return "Unknown";
}

static void status_line(struct text *out, unsigned status)
{
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        if (statuses[i].status == status) {
            text_slice_add(out, statuses[i].line);
            return;
        }
    }
    text_literal(out, "HTTP/1.1 ");
    text_u64(out, status);
    text_literal(out, " Unknown\r\n");
}

/* Status line, Date and Content-Type: what stands before a reply's own fields. */
static void begin(struct text *out, const struct answer_manner *manner, unsigned status,
                  struct slice content_type)
{
    status_line(out, status);
    if (manner->date.len > 0) {
        text_literal(out, "Date: ");
        text_slice_add(out, manner->date);
        text_literal(out, "\r\n");
    }
    if (content_type.len > 0) {
        text_literal(out, "Content-Type: ");
        text_slice_add(out, content_type);
        text_literal(out, "\r\n");
    }
}

/* Length, Connection where the version's default is not meant, and the empty line. */
static void end(struct text *out, const struct answer_manner *manner, unsigned status, uint64_t body_len)
{
    if (status != 204) { /* RFC 9110 8.6: a 204 must not have it */
        text_literal(out, "Content-Length: ");
        text_u64(out, body_len);
        text_literal(out, "\r\n");
    }
    if (!manner->keeps_alive)
        text_literal(out, "Connection: close\r\n");
    else if (manner->minor == 0)
        text_literal(out, "Connection: keep-alive\r\n");
    text_literal(out, "\r\n");
}

void answer_head(struct text *out, const struct answer_manner *manner, unsigned status,
                 struct slice content_type, struct slice extra, uint64_t body_len)
{
    begin(out, manner, status, content_type);
    text_slice_add(out, extra);
    end(out, manner, status, body_len);
}

void answer_body(struct text *out, const struct answer_manner *manner, unsigned status,
                 struct slice content_type, struct slice extra, struct slice body)
{
    answer_head(out, manner, status, content_type, extra, body.len);
    if (!manner->is_head)
        text_slice_add(out, body);
}

/* The whole seconds of a wait that was wished for, or fewer where its limits let callers wait for less: rounded up. */
static uint64_t applied(const struct weir_answer *answer, uint64_t preferred)
{
    for (size_t i = 0; i < answer->count; i++) {
        weir_limit_id limit = answer->each[i].limit;
        bool is_watched = (answer->watched >> i & 1) != 0;
        weir_ns up_to = limit == WEIR_NO_LIMIT || is_watched ? 0 : answer->limits[limit].wait.up_to;
        uint64_t seconds = up_to / WEIR_SECOND + (up_to % WEIR_SECOND != 0);
        preferred = up_to > 0 && seconds < preferred ? seconds : preferred;
    }
    return preferred;
}

void answer_decision(struct text *out, enum weir_headers headers, const struct answer_manner *manner,
                     enum answer_door door, bool is_always_200, const struct weir_answer *answer,
                     const struct answer_beside *beside, weir_ns now)
{
    unsigned status = is_always_200 ? 200 : answer_status(answer, door);
    bool is_pass = status == 200, has_body = door == ANSWER_CHECK || !is_pass;
    char storage[ANSWER_JSON_MAX
                 + BASE64URL_LEN(TOKEN_MAX)]; /* the longest text of a token stands beside the decision */
    struct text body = text_of(storage, sizeof storage);
    if (has_body && is_pass) {
        answer_json(&body, answer, beside, now);
        text_literal(&body, "\n");
    } else if (has_body) {
        answer_problem_json(&body, answer, beside, now, status);
    }
    out->is_cut |= body.is_cut;

    begin(out, manner, status,
          has_body ? is_pass ? ANSWER_TYPE_JSON : ANSWER_TYPE_PROBLEM : (struct slice){ NULL, 0 });
    answer_fields(out, headers, answer, now);
    if (beside != NULL && beside->preferred > 0) {
        text_literal(out, "Preference-Applied: wait=");
        text_u64(out, applied(answer, beside->preferred));
        text_literal(out, "\r\n");
    }
    if (is_pass && door == ANSWER_AUTH_ACCEL)
        text_literal(out, "X-Accel-Redirect: @app\r\n");
    end(out, manner, status, body.len);
    if (!manner->is_head)
        text_slice_add(out, text_slice(&body));
}

void answer_error(struct text *out, const struct answer_manner *manner, unsigned status, const char *detail,
                  struct slice field, struct slice extra)
{
    /* What struct check_fault holds, were each of its bytes an escape, and more than our own words. */
    char storage[4096];
    struct text body = text_of(storage, sizeof storage);
    answer_error_json(&body, status, detail, field);
    out->is_cut |= body.is_cut;
    begin(out, manner, status, ANSWER_TYPE_PROBLEM);
    if (status == 503)
        text_literal(out, "Cache-Control: no-store\r\n");
    text_slice_add(out, extra);
    end(out, manner, status, body.len);
    if (!manner->is_head)
        text_slice_add(out, text_slice(&body));
}
