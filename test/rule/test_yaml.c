// SPDX-License-Identifier: Apache-2.0
/* test_yaml.c - the strict subset of YAML: what is refused, where, and that it is refused in bounded time. */
#include "rule/yaml.h"
#include "support/unit.h"

/* "LINE:COLUMN message" of the first finding, or "" */
static void first_finding(struct slice text, char *out, size_t size)
{
    struct region region;
    struct node *root;
    region_init(&region, NULL);
    struct weir_diagnostics *diagnostics = diagnostics_new("t.yaml", NULL);
    assert_non_null(diagnostics);
    assert_int_equal(yaml_read(&region, text, diagnostics, &root), 0);
    assert_true(diagnostics_finish(diagnostics, text));
    const struct weir_diagnostic *first = weir_diagnostics_at(diagnostics, 0);
    out[0] = '\0';
    if (first != NULL)
        snprintf(out, size, "%u:%u %s", first->line, first->column, first->message);
    else
        assert_non_null(root);
    weir_diagnostics_free(diagnostics);
    region_deinit(&region);
}

static void refuses_what_can_mislead(void **state)
{
    (void)state;
    static const struct {
        const char *why, *text, *finding;
    } rows[] = {
        { "plain YAML is fine", "a: 1\nb: [x, {c: d}]\n", "" },
        { "JSON is YAML too", "{\"a\": [1, 2], \"b\": {\"c\": null}}", "" },
        { "a byte order mark is allowed",
          "\xef\xbb\xbf"
          "a: 1\n",
          "" },
        { "and indents nothing: the second key stands in the same column",
          "\xef\xbb\xbf"
          "a: 1\nb: 2\n",
          "" },
        { "nor moves a column",
          "\xef\xbb\xbf"
          "a: *x\n",
          "1:4 alias '*x': aliases are not part of the language" },
        { "a final `...` ends the one document", "a: 1\n...\n", "" },
        { "nothing at all", "", "0:0 the contract is empty" },
        { "comments alone", "# nothing\n", "0:0 the contract is empty" },
        { "a second document", "a: 1\n---\nb: 2\n", "2:1 the file has more than one document" },
        { "an anchor", "a: &x 1\n", "1:4 anchor '&x': anchors are not part of the language" },
        { "an anchor on a map", "a: &x {b: 1}\n", "1:4 anchor '&x': anchors are not part of the language" },
        { "an alias", "a: *x\n", "1:4 alias '*x': aliases are not part of the language" },
        { "a tag", "a: !!int 1\n", "1:4 tag 'tag:yaml.org,2002:int': tags are not part of the language" },
        { "a local tag", "a: !x 1\n", "1:4 tag '!x': tags are not part of the language" },
        { "a merge key", "<<: {a: 1}\n", "1:1 merge keys (`<<`) are not part of the language" },
        { "a quoted one is a name like any other", "\"<<\": 1\n", "" },
        { "a key twice", "a: 1\nb: 2\na: 3\n", "3:1 'a' is given twice; first in line 1" },
        { "the same key quoted and plain", "a: 1\n'a': 2\n", "2:1 'a' is given twice; first in line 1" },
        { "a key twice in flow form", "x: {a: 1, a: 2}\n", "1:11 'a' is given twice; first in line 1" },
        { "a key twice among many (sorted, not compared)",
          "{a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, h: 1, i: 1, j: 1, k: 1, l: 1, m: 1,\n c: 2}",
          "2:2 'c' is given twice; first in line 1" },
        { "the same key at two levels is fine", "a: {a: 1}\n", "" },
        { "a list as a key", "? [a]\n: 1\n", "1:3 a key must be a word, not a list or a map" },
        { "a tab for indentation", "a:\n\tb: 1\n",
          "2:1 found character that cannot start any token, while scanning for the next token from line 2" },
        { "a bracket that is not closed", "a: [1, 2\n",
          "2:1 did not find expected ',' or ']', while parsing a flow sequence from line 1" },
        { "bytes that are no UTF-8", "a: 1\nb: \xff\n", "2:4 invalid leading UTF-8 octet" },
        { "UTF-16 is not looked for",
          "\xff\xfe"
          "a\0:\0",
          "1:1 invalid leading UTF-8 octet" },
        { "a control byte", "a: 1\nb: x\x01\n", "2:5 control characters are not allowed" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char finding[300];
        first_finding(slice_of(rows[i].text), finding, sizeof finding);
        if (strcmp(finding, rows[i].finding) != 0)
            fail_msg("%s: got \"%s\", not \"%s\"", rows[i].why, finding, rows[i].finding);
    }
}

/* `count` times `piece`. */
static char *repeat(const char *piece, size_t count, size_t *len)
{
    size_t step = strlen(piece);
    char *text = malloc(count * step + 1);
    assert_non_null(text);
    for (size_t i = 0; i < count; i++)
        memcpy(text + i * step, piece, step);
    *len = count * step;
    return text;
}

static void is_bounded(void **state)
{
    (void)state;
    char finding[300];
    size_t len;

    first_finding(slice_of("[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]"), finding, sizeof finding);
    assert_string_equal(finding, ""); /* sixteen levels are the most */
    first_finding(slice_of("[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]"), finding, sizeof finding);
    assert_string_equal(finding, "1:17 nested more than 16 levels deep");

    /* Five seconds in libyaml's own scanner; here the seventeenth event ends it. */
    char *deep = repeat("[", 1000000, &len);
    first_finding((struct slice){ deep, len }, finding, sizeof finding);
    assert_string_equal(finding, "1:17 nested more than 16 levels deep");
    free(deep);

    char *long_one = repeat("# comment\n", WEIR_CONTRACT_BYTES_MAX / 10 + 1, &len);
    first_finding((struct slice){ long_one, len }, finding, sizeof finding);
    assert_string_equal(finding, "0:0 the contract is longer than 16 MiB");
    free(long_one);

    char *many = repeat("-\n", 3000000, &len);
    first_finding((struct slice){ many, len }, finding, sizeof finding);
    assert_string_equal(finding, "2097152:2 the contract has more than 2097152 values");
    free(many);
}

static void knows_where_a_node_stands(void **state)
{
    (void)state;
    struct region region;
    struct node *root;
    region_init(&region, NULL);
    struct weir_diagnostics *diagnostics = diagnostics_new("t.yaml", NULL);
    assert_int_equal(
        yaml_read(&region, slice_of("# c\nname: \"two words\"\n  \nlist: [ä, bc]\n"), diagnostics, &root), 0);
    assert_non_null(root);
    assert_int_equal(root->kind, NODE_MAP);
    assert_int_equal(root->count, 2);
    const struct node *name = root->first->next;
    assert_int_equal(name->place.line, 2);
    assert_int_equal(name->place.column, 7);
    assert_int_equal(name->place.width, 11);
    assert_false(name->is_plain);
    const struct node *list = name->next->next;
    assert_int_equal(list->count, 2);
    const struct node *second = list->first->next;
    assert_true(slice_equals(second->text, SLICE("bc")));
    assert_int_equal(second->place.line, 4);
    assert_int_equal(second->place.column, 11); /* in characters, not bytes */
    assert_true(second->is_plain);
    weir_diagnostics_free(diagnostics);
    region_deinit(&region);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_can_mislead),
        cmocka_unit_test(is_bounded),
        cmocka_unit_test(knows_where_a_node_stands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
