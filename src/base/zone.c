// SPDX-License-Identifier: Apache-2.0
/*
 * zone.c - TZif files (RFC 8536) and the rule in their last line.
 *
 * A file lists the instants at which the offset changed; after the last one the footer, a POSIX TZ string such as
 * CET-1CEST,M3.5.0,M10.5.0/3, goes on for ever. Both are read at load into plain arrays.
 */
#include "base/zone.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/civil.h"

#define DAY_SECONDS 86400
/* Larger than any real file (about 4 KB), small enough to read at once. */
#define FILE_MAX ((size_t)64 << 10)
#define HEADER_LEN 44

/* When a rule's clock changes: a day of the year and a second of that day, which may lie outside it. */
struct change {
    enum { MONTH_WEEK_DAY, JULIAN_SKIPS_LEAP, JULIAN_COUNTS_LEAP } kind;
    int month, week, day;
    int32_t seconds;
};

struct rule {
    bool is_known, has_summer;
    int32_t standard, summer; /* seconds east */
    struct change to_summer, to_standard;
};

struct zone {
    size_t size; /* of this allocation */
    struct rule rule;
    size_t count;
    int32_t first;    /* offset before the first change */
    int64_t *at;      /* Unix seconds, ascending */
    int32_t *offsets; /* from at[i] on */
};

/* ---- The footer: a POSIX TZ string ------------------------------------------------------------------------ */

static bool read_number(const char **at, int low, int high, int *out)
{
    int value = 0, digits = 0;
    while (**at >= '0' && **at <= '9' && digits < 4) {
        value = value * 10 + (*(*at)++ - '0');
        digits++;
    }
    *out = value;
    return digits > 0 && value >= low && value <= high;
}

/* A name: letters, or anything within <>. */
static bool skip_name(const char **at)
{
    const char *start = *at;
    if (**at == '<') {
        const char *end = strchr(*at, '>');
        if (end == NULL)
            return false;
        *at = end + 1;
        return true;
    }
    while ((**at >= 'a' && **at <= 'z') || (**at >= 'A' && **at <= 'Z'))
        (*at)++;
    return *at - start >= 3;
}

/* [+-]h[h[h]][:mm[:ss]]; hours beyond a day are allowed in rules. */
static bool read_clock(const char **at, int32_t *out)
{
    int sign = 1, hours, minutes = 0, seconds = 0;
    if (**at == '-' || **at == '+')
        sign = *(*at)++ == '-' ? -1 : 1;
    if (!read_number(at, 0, 167, &hours))
        return false;
    if (**at == ':' && (++*at, !read_number(at, 0, 59, &minutes)))
        return false;
    if (**at == ':' && (++*at, !read_number(at, 0, 59, &seconds)))
        return false;
    *out = sign * (hours * 3600 + minutes * 60 + seconds);
    return true;
}

static bool read_change(const char **at, struct change *out)
{
    if (*(*at)++ != ',')
        return false;
    if (**at == 'M') {
        ++*at;
        out->kind = MONTH_WEEK_DAY;
        if (!read_number(at, 1, 12, &out->month) || *(*at)++ != '.' || !read_number(at, 1, 5, &out->week)
            || *(*at)++ != '.' || !read_number(at, 0, 6, &out->day))
            return false;
    } else {
        out->kind = **at == 'J' ? JULIAN_SKIPS_LEAP : JULIAN_COUNTS_LEAP;
        *at += **at == 'J';
        if (!read_number(at, out->kind == JULIAN_SKIPS_LEAP, 365, &out->day))
            return false;
    }
    out->seconds = 2 * 3600;
    return **at != '/' || (++*at, read_clock(at, &out->seconds));
}

static bool read_rule(const char *at, struct rule *out)
{
    int32_t west;
    *out = (struct rule){ 0 };
    if (!skip_name(&at) || !read_clock(&at, &west))
        return false;
    out->is_known = true;
    out->standard = out->summer = -west;
    if (*at == '\0')
        return true;

    out->has_summer = true;
    out->summer = out->standard + 3600;
    if (!skip_name(&at))
        return false;
    if (*at != ',' && *at != '\0') {
        if (!read_clock(&at, &west))
            return false;
        out->summer = -west;
    }
    return read_change(&at, &out->to_summer) && read_change(&at, &out->to_standard) && *at == '\0';
}

/* The Unix second of a change in a year, when the clock before it runs `offset` east. */
static int64_t change_at(const struct change *change, int64_t year, int32_t offset)
{
    int64_t day;
    if (change->kind == MONTH_WEEK_DAY) {
        int64_t first = civil_to_days(year, (unsigned)change->month, 1);
        int64_t next = change->month == 12 ? civil_to_days(year + 1, 1, 1)
                                           : civil_to_days(year, (unsigned)change->month + 1, 1);
        int weekday = (int)((first + 4) % 7 + 7) % 7; /* 1970-01-01 was a Thursday */
        day = first + (change->day - weekday + 7) % 7 + 7 * (change->week - 1);
        while (day >= next) /* week 5 means the last one */
            day -= 7;
    } else {
        int64_t new_year = civil_to_days(year, 1, 1);
        bool is_leap = civil_to_days(year + 1, 1, 1) - new_year == 366;
        day = new_year + change->day;
        if (change->kind == JULIAN_SKIPS_LEAP)
            day -= !(is_leap && change->day >= 60);
    }
    return day * DAY_SECONDS + change->seconds - offset;
}

static int32_t rule_offset(const struct rule *rule, int64_t unix_seconds)
{
    if (!rule->has_summer)
        return rule->standard;
    int64_t year = civil_from_days(floor_divide(unix_seconds + rule->standard, DAY_SECONDS)).year;
    int64_t summer = change_at(&rule->to_summer, year, rule->standard);
    int64_t winter = change_at(&rule->to_standard, year, rule->summer);
    bool is_summer = summer < winter ? unix_seconds >= summer && unix_seconds < winter
                                     : unix_seconds >= summer || unix_seconds < winter;
    return is_summer ? rule->summer : rule->standard;
}

/* ---- The file --------------------------------------------------------------------------------------------- */

static int64_t big_endian(const unsigned char *at, size_t len)
{
    uint64_t value = at[0] & 0x80 ? UINT64_MAX : 0;
    for (size_t i = 0; i < len; i++)
        value = value << 8 | at[i];
    return (int64_t)value;
}

/* The counts of a TZif header that this reader needs, and the size of the data behind it. */
struct header {
    size_t times, types, size;
};

static bool read_header(const unsigned char *at, size_t len, size_t time_size, struct header *out)
{
    if (len < HEADER_LEN || memcmp(at, "TZif", 4) != 0 || at[4] < '2')
        return false;
    size_t count[6];
    for (size_t i = 0; i < 6; i++) {
        int64_t value = big_endian(at + 20 + 4 * i, 4);
        if (value < 0 || value > (int64_t)FILE_MAX)
            return false;
        count[i] = (size_t)value;
    }
    *out = (struct header){ count[3], count[4],
                            count[3] * (time_size + 1) + count[4] * 6 + count[5] + count[2] * (time_size + 4)
                                + count[1] + count[0] };
    return count[4] >= 1 && HEADER_LEN + out->size <= len;
}

static bool fill(struct zone *zone, const unsigned char *data, const struct header *header)
{
    const unsigned char *kinds = data + header->times * 8;
    const unsigned char *types = kinds + header->times;
    zone->first = (int32_t)big_endian(types, 4);
    zone->count = header->times;
    for (size_t i = 0; i < header->times; i++) {
        if (kinds[i] >= header->types)
            return false;
        zone->at[i] = big_endian(data + i * 8, 8);
        zone->offsets[i] = (int32_t)big_endian(types + (size_t)kinds[i] * 6, 4);
        if (i > 0 && zone->at[i] <= zone->at[i - 1])
            return false;
    }
    return true;
}

static int parse(struct zone **out, const unsigned char *file, size_t len,
                 const struct weir_allocator *allocator)
{
    struct header old, header;
    if (!read_header(file, len, 4, &old))
        return WEIR_ERR_ZONE;
    size_t skip = HEADER_LEN + old.size;
    if (!read_header(file + skip, len - skip, 8, &header))
        return WEIR_ERR_ZONE;

    size_t size = sizeof(struct zone) + header.times * (sizeof(int64_t) + sizeof(int32_t));
    struct zone *zone = allocator->allocate(allocator->context, size, sizeof(int64_t));
    if (zone == NULL)
        return WEIR_ERR_MEMORY;
    zone->size = size;
    zone->at = (int64_t *)(zone + 1);
    zone->offsets = (int32_t *)(zone->at + header.times);

    /* The footer stands between two newlines; without a usable one the last offset goes on. */
    const char *footer = (const char *)file + skip + HEADER_LEN + header.size;
    const char *end = (const char *)file + len;
    char text[64] = { 0 };
    if (end - footer >= 2 && *footer == '\n') {
        const char *stop = memchr(footer + 1, '\n', (size_t)(end - footer - 1));
        if (stop != NULL && (size_t)(stop - footer - 1) < sizeof text)
            memcpy(text, footer + 1, (size_t)(stop - footer - 1));
    }
    if (!read_rule(text, &zone->rule))
        zone->rule.is_known = false;
    if (!fill(zone, file + skip + HEADER_LEN, &header)) {
        zone_close(zone, allocator);
        return WEIR_ERR_ZONE;
    }
    *out = zone;
    return 0;
}

/* Names of zones are relative paths of plain words: no dots at the start of one, so no way out of the folder. */
static bool is_zone_name(const char *name)
{
    size_t len = strlen(name);
    if (len == 0 || len > 64)
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = name[i];
        bool starts_word = i == 0 || name[i - 1] == '/';
        bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'
                       || c == '-' || c == '+';
        if (!is_word && (starts_word || c != '/'))
            return false;
    }
    return name[len - 1] != '/';
}

int zone_open(struct zone **out, const char *name, const struct weir_allocator *allocator)
{
    if (strcmp(name, "UTC") == 0) {
        struct zone *zone = allocator->allocate(allocator->context, sizeof *zone, sizeof(int64_t));
        if (zone == NULL)
            return WEIR_ERR_MEMORY;
        *zone = (struct zone){ .size = sizeof *zone, .rule = { .is_known = true } };
        *out = zone;
        return 0;
    }
    char path[128];
    if (!is_zone_name(name))
        return WEIR_ERR_ZONE;
    (void)snprintf(path, sizeof path, "/usr/share/zoneinfo/%s", name); /* fits: the name has at most 64 bytes */
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return WEIR_ERR_ZONE;

    int code = WEIR_ERR_MEMORY;
    unsigned char *file = allocator->allocate(allocator->context, FILE_MAX, 1);
    if (file != NULL) {
        ssize_t len = read(fd, file, FILE_MAX);
        code = len > 0 ? parse(out, file, (size_t)len, allocator) : WEIR_ERR_ZONE;
        allocator->release(allocator->context, file, FILE_MAX);
    }
    close(fd);
    return code;
}

void zone_close(struct zone *zone, const struct weir_allocator *allocator)
{
    if (zone != NULL)
        allocator->release(allocator->context, zone, zone->size);
}

int32_t zone_offset(const struct zone *zone, int64_t unix_seconds)
{
    if (zone->count == 0 || unix_seconds >= zone->at[zone->count - 1]) {
        if (zone->rule.is_known)
            return rule_offset(&zone->rule, unix_seconds);
        return zone->count == 0 ? zone->first : zone->offsets[zone->count - 1];
    }
    if (unix_seconds < zone->at[0])
        return zone->first;
    size_t low = 0, high = zone->count - 1; /* at[low] <= unix_seconds < at[high] */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (zone->at[middle] <= unix_seconds)
            low = middle;
        else
            high = middle;
    }
    return zone->offsets[low];
}
