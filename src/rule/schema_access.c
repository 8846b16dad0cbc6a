// SPDX-License-Identifier: Apache-2.0
/* schema_access.c - fields of `server` that say who may connect, and how: doors with the PROXY protocol, the mode of sockets. */
#include "rule/contract.h"

void parse_proxy_doors(struct load *load, const struct field *field, const struct node *value, void *into)
{
    static const struct {
        const char *word;
        unsigned door;
    } doors[] = { { "http", WEIR_DOOR_HTTP }, { "resp", WEIR_DOOR_RESP }, { "grpc", WEIR_DOOR_GRPC } };
    const char *cure = "write a list of doors such as [http, grpc]; there are http, resp and grpc";
    unsigned *found = (unsigned *)(void *)((char *)into + field->offset);
    if (!schema_is_list(load, field->name, value, cure))
        return;
    for (const struct node *node = value->first; node != NULL; node = node->next) {
        const char *problem = node_scalar_problem(node);
        unsigned door = 0;
        for (size_t i = 0; problem == NULL && i < sizeof doors / sizeof *doors; i++)
            if (slice_equals(node->text, slice_of(doors[i].word)))
                door = doors[i].door;
        if (problem == NULL && door == 0)
            problem = "is no such door";
        if (problem == NULL)
            *found |= door;
        else if (node->kind != NODE_BAD)
            schema_error(load, field->name, node, cure, "%s", problem);
    }
}

/* Octal digits are text in YAML: as a number 0660 would be another one for every second reader. */
void parse_socket_mode(struct load *load, const struct field *field, const struct node *value, void *into)
{
    unsigned *mode = (unsigned *)(void *)((char *)into + field->offset);
    const char *problem = node_scalar_problem(value);
    unsigned read;
    if (value->kind == NODE_BAD)
        return;
    if (problem == NULL && !slice_to_mode(value->text, &read))
        problem = "is no mode";
    if (problem == NULL)
        *mode = read;
    else
        schema_error(load, field->name, value, "write four octal digits in quotes, such as \"0660\"", "%s",
                     problem);
}
