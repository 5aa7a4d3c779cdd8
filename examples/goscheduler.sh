#!/bin/sh
# A program as GoScheduler's README has it: register an app, create a schedule, look at its status. It knows nothing of
# Minutehand, needs curl, and runs against either:
#
#     sh examples/goscheduler.sh                                     # what listens on port 8080
#     GOSCHEDULER=http://localhost:18080 sh examples/goscheduler.sh
#
# CALLED is the URL that is called; without it, the server itself is. SECONDS_AHEAD is when, CRON a rule for calls of a
# cron, which is left to its user to delete.
set -eu

server=${GOSCHEDULER:-http://localhost:8080}
receiver=${CALLED:-$server/goscheduler/healthcheck}
method=${METHOD:-GET}
due=$(($(date +%s) + ${SECONDS_AHEAD:-5}))
callback='{"type": "http", "details": {"url": "'$receiver'", "method": "'$method'",
    "headers": {"Content-Type": "application/json", "Accept": "application/json"}}}'

post() { # PATH BODY
    curl --silent --show-error --location "$server/goscheduler/$1" --header 'Content-Type: application/json' --data "$2"
}

scheduled() { # ANSWER: the id in it
    printf '%s' "$1" | sed -n 's/.*"scheduleId": *"\([^"]*\)".*/\1/p'
}

for app in test Athena; do
    post app '{"appId": "'$app'", "partitions": 5, "active": true}'
done

answer=$(post schedule '{"appId": "test", "payload": "{}", "scheduleTime": '$due', "callback": '"$callback"'}')
echo "$answer"
id=$(scheduled "$answer")
[ -n "$id" ]

if [ -n "${CRON:-}" ]; then
    post schedule '{"appId": "test", "payload": "{}", "cronExpression": "'"$CRON"'", "callback": '"$callback"'}'
fi

for _ in $(seq 60); do
    answer=$(curl --silent --show-error --location "$server/goscheduler/schedule/$id" --header 'Accept: application/json')
    status=$(printf '%s' "$answer" | sed -n 's/.*"status": *"\([A-Z]*\)".*/\1/p')
    if [ "$status" != SCHEDULED ]; then
        break
    fi
    sleep 1
done
echo "$answer"
echo "$id $due $status"
[ "$status" = SUCCESS ]
