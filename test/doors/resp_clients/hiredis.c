// SPDX-License-Identifier: Apache-2.0
/* hiredis.c - hiredis at the Redis door; see README.md. It says nothing on connect, and the Debian one knows RESP2 only. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static redisContext *context;

/* What comes is ours: no quote or control byte in it, but the newline of CLIENT INFO. */
static void print(const redisReply *reply)
{
    switch (reply->type) {
    case REDIS_REPLY_INTEGER:
        printf("%lld", reply->integer);
        break;
    case REDIS_REPLY_NIL:
        printf("null");
        break;
    case REDIS_REPLY_ARRAY:
        printf("[");
        for (size_t i = 0; i < reply->elements; i++) {
            printf(i == 0 ? "" : ", ");
            print(reply->element[i]);
        }
        printf("]");
        break;
    default:
        printf("\"%.*s\"", (int)strcspn(reply->str, "\n"), reply->str);
    }
}

/* `kind`: what the reply must be; 0: anything but an error. */
static redisReply *check(redisReply *reply, int kind)
{
    if (reply == NULL || (kind == 0 ? reply->type == REDIS_REPLY_ERROR : reply->type != kind)) {
        fprintf(stderr, "hiredis: %s\n", reply == NULL ? context->errstr : reply->str);
        exit(1);
    }
    return reply;
}

static void show(const char *name, int kind, const char *command)
{
    redisReply *reply = check(redisCommand(context, command), kind);
    printf(", \"%s\": ", name);
    print(reply);
    freeReplyObject(reply);
}

static const char *const throttled[] = { "CL.THROTTLE c 0 1 1000", "CL.THROTTLE c 0 1 1000" };
static const char *const pipelined[] = { "PING", "CL.THROTTLE c-pipeline 15 30 60",
                                         "WEIR.CHECK ATTR tenant c-pipeline" };

/* All are written before the first reply is read. */
static void show_several(const char *name, const char *const *commands, int count)
{
    for (int i = 0; i < count; i++)
        redisAppendCommand(context, commands[i]);
    printf(", \"%s\": [", name);
    for (int i = 0; i < count; i++) {
        void *reply = NULL;
        printf(i == 0 ? "" : ", ");
        (void)redisGetReply(context, &reply); /* NULL where it failed */
        print(check(reply, 0));
        freeReplyObject(reply);
    }
    printf("]");
}

int main(int argc, char **argv)
{
    context = argc < 2 ? NULL : redisConnect("127.0.0.1", atoi(argv[1]));
    if (context == NULL || context->err != 0)
        return 1;
    redisReply *reply = argc < 3 ? NULL : redisCommand(context, "AUTH %s", argv[2]);
    if (reply == NULL || reply->type != REDIS_REPLY_ERROR)
        reply = redisCommand(context, "PING");
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR) {
        printf("{\"failed\": \"%s\"}\n", reply == NULL ? context->errstr : reply->str);
        return 0;
    }
    printf("{\"ping\": \"%s\", \"resp\": 2", reply->str);
    show("allowed", 0, "WEIR.CHECK COST 20 ATTR tenant c");
    show("denied", 0, "WEIR.CHECK ATTR tenant c");
    show("peeked", 0, "WEIR.PEEK ATTR tenant c-fresh");
    show_several("throttled", throttled, 2);
    show_several("pipeline", pipelined, 3);
    show("error", REDIS_REPLY_ERROR, "NOSUCH word");
    show("refused", REDIS_REPLY_ERROR, "WEIR.CHECK COST many ATTR tenant c");
    printf("}\n");
    redisFree(context);
    return 0;
}
