// SPDX-License-Identifier: Apache-2.0

// go-redis at the Redis door; see ../README.md.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"regexp"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// JSON has no objects with names of any type, but go-redis gives them.
func plain(value any) any {
	switch value := value.(type) {
	case map[any]any:
		object := map[string]any{}
		for name, member := range value {
			object[fmt.Sprint(name)] = plain(member)
		}
		return object
	case []any:
		for i := range value {
			value[i] = plain(value[i])
		}
	}
	return value
}

func talk(ctx context.Context, client *redis.Client) map[string]any {
	ask := func(words ...any) any {
		reply, err := client.Do(ctx, words...).Result()
		if err != nil {
			log.Fatal(err)
		}
		return plain(reply)
	}
	errorOf := func(words ...any) string {
		err := client.Do(ctx, words...).Err()
		if err == nil {
			log.Fatal("no error came")
		}
		return err.Error()
	}
	commands, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Do(ctx, "PING")
		pipe.Do(ctx, "CL.THROTTLE", "go-pipeline", 15, 30, 60)
		pipe.Do(ctx, "WEIR.CHECK", "ATTR", "tenant", "go-pipeline")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	pipeline := []any{}
	for _, command := range commands {
		pipeline = append(pipeline, plain(command.(*redis.Cmd).Val()))
	}
	info := fmt.Sprint(ask("CLIENT", "INFO"))
	resp, err := strconv.Atoi(regexp.MustCompile(`resp=(\d)`).FindStringSubmatch(info)[1])
	if err != nil {
		log.Fatal(err)
	}
	return map[string]any{
		"ping":      client.Ping(ctx).Val(),
		"resp":      resp,
		"allowed":   ask("WEIR.CHECK", "COST", 20, "ATTR", "tenant", "go"),
		"denied":    ask("WEIR.CHECK", "ATTR", "tenant", "go"),
		"peeked":    ask("WEIR.PEEK", "ATTR", "tenant", "go-fresh"),
		"throttled": []any{ask("CL.THROTTLE", "go", 0, 1, 1000), ask("CL.THROTTLE", "go", 0, 1, 1000)},
		"pipeline":  pipeline,
		"error":     errorOf("NOSUCH", "word"),
		"refused":   errorOf("WEIR.CHECK", "COST", "many", "ATTR", "tenant", "go"),
	}
}

func main() {
	ctx := context.Background()
	options := &redis.Options{Addr: "127.0.0.1:" + os.Args[1]}
	if len(os.Args) > 2 {
		options.Password = os.Args[2]
	}
	client := redis.NewClient(options)
	var result map[string]any
	if err := client.Ping(ctx).Err(); err != nil {
		result = map[string]any{"failed": err.Error()}
	} else {
		result = talk(ctx, client)
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		log.Fatal(err)
	}
}
