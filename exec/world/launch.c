/* Starting ranks: the launcher is a child whose streams pass through here. */
#include "exec/world/launch.h"

#include "base/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_ASKED_AT_ONCE = 32,
    LOOK_NANOSECONDS = 20000000,
    LAUNCHER_WORDS = 5,
    MOST_STARTING_SECONDS = 10
};

/* One of the two streams that come from the launcher, line by line. */
typedef struct stream {
    int from;
    FILE *to;
    size_t n;
    char line[4096];
    bool noise;  /* the launcher's own report of a failure has begun: nothing of ours follows */
    int n_blank; /* lines held back: the report begins with one */
} stream;

/* What the ranks said, and how one of them ended where the launcher says so. */
typedef struct report {
    const char *program; /* its name */
    bool complained;
    char ending[128];
    int code;            /* that the first rank to fail said it ends with; 0: none did */
    double beat_seconds; /* when the ranks last beat; 0: never */
    bool has_begun;      /* all ranks are there */
    bool has_last_beat;  /* no more will come */
} report;

static bool is_rule(const char *line) {
    size_t n = strspn(line, "=");
    return n > 40 && (line[n] == '\n' || line[n] == '\0');
}

/* Does a line begin with a name, and something behind it that is no part of one? */
static bool begins_with(const char *line, const char *name, const char *behind) {
    size_t n = strlen(name);
    return strncmp(line, name, n) == 0 && line[n] != '\0' && strchr(behind, line[n]) != NULL;
}

static bool is_complaint(const char *line, const report *r) {
    return begins_with(line, "cleave", " ") || begins_with(line, r->program, ": ");
}

static void put_blank(stream *s) {
    for (; s->n_blank > 0; s->n_blank--)
        fputc('\n', s->to);
}

/* Results pass; of the messages, our own.  The launcher reports a failure after a rule of "=". */
static void pass_line(stream *s, report *r) {
    static const char ending[] = "EXIT STRING: ", ends_with[] = CLEAVE_ENDS_WITH;
    s->line[s->n] = '\0';
    s->n = 0;
    if (strcmp(s->line, CLEAVE_BEAT) == 0)
        r->beat_seconds = cleave_clock_seconds();
    r->has_begun = r->has_begun || strcmp(s->line, CLEAVE_BEGUN) == 0;
    r->has_last_beat = r->has_last_beat || strcmp(s->line, CLEAVE_LAST_BEAT) == 0;
    bool message = s->to == stderr,
         ours = strncmp(s->line, "cleave", 6) == 0 || begins_with(s->line, r->program, ": ");
    if (message && r->code == 0 && strncmp(s->line, ends_with, sizeof ends_with - 1) == 0)
        r->code = atoi(s->line + sizeof ends_with - 1);
    if (!message && strcmp(s->line, "\n") == 0 && !s->noise) {
        s->n_blank++;
        return;
    }
    s->noise = s->noise || is_rule(s->line);
    const char *how = strstr(s->line, ending);
    if (s->noise && how != NULL)
        snprintf(r->ending, sizeof r->ending, "%.*s", (int)strcspn(how + sizeof ending - 1, "\n"),
                 how + sizeof ending - 1);
    /* Others fail because the first one did. */
    if (s->noise || (message && (!ours || (r->complained && is_complaint(s->line, r)))))
        return;
    r->complained = r->complained || (message && is_complaint(s->line, r));
    put_blank(s);
    fputs(s->line, s->to);
    fflush(s->to);
}

/* False at the end of the stream. */
static bool pass_some(stream *s, report *r) {
    char some[4096];
    ssize_t n = read(s->from, some, sizeof some);
    for (ssize_t i = 0; i < n; i++) {
        s->line[s->n++] = some[i];
        if (some[i] == '\n' || s->n == sizeof s->line - 1)
            pass_line(s, r);
    }
    if (n <= 0 && s->n > 0)
        pass_line(s, r);
    if (n <= 0 && !s->noise)
        put_blank(s);
    return n > 0 || (n < 0 && errno == EINTR);
}

/* The launcher and all that it started. */
typedef struct launched {
    pid_t launcher;
    int signals; /* descriptor of those for this process */
    int input;   /* what is written there comes to rank 0 */
    double patience_seconds;
    double told_seconds; /* when this process was first told to end */
    bool told_to_end, told_twice, asked, hung;
} launched;

static void take_signal(launched *l) {
    struct signalfd_siginfo info;
    if (read(l->signals, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    l->told_seconds = l->told_to_end ? l->told_seconds : cleave_clock_seconds();
    l->told_twice = l->told_to_end;
    l->told_to_end = true;
}

/* What was asked of this process, to the ranks: to end.  Of those that beat rank 0 looks at its
   input, and they end in their own time: the launcher, which would pass a signal on, loses now and
   then what ranks say and with which code they end once it was sent one.  Who asks twice does not
   want to wait.  A launcher that is still starting ranks is left alone: MPICH's would wait for ever
   for ranks that wait for it, and they would stay behind it where it is killed. */
static void pass_signal(launched *l, const report *r) {
    bool starts = !r->has_begun && cleave_clock_seconds() - l->told_seconds < MOST_STARTING_SECONDS;
    if (!l->told_to_end || starts)
        return;
    if (l->told_twice)
        kill(l->launcher, SIGKILL);
    else if (!l->asked && (r->beat_seconds <= 0 || send(l->input, "\n", 1, MSG_NOSIGNAL) != 1))
        kill(l->launcher, SIGTERM);
    l->asked = true;
}

static void look_for_beat(launched *l, const report *r) {
    l->hung = l->hung || (l->patience_seconds > 0 && r->beat_seconds > 0 && !r->has_last_beat &&
                          cleave_clock_seconds() - r->beat_seconds > l->patience_seconds);
    if (l->hung)
        kill(l->launcher, SIGKILL); /* its proxies see that, and kill the ranks */
}

static void pass_all(stream *streams, report *r, launched *l) {
    struct pollfd waiting[3] = {{.fd = streams[0].from, .events = POLLIN},
                                {.fd = streams[1].from, .events = POLLIN},
                                {.fd = l->signals, .events = POLLIN}};
    while (waiting[0].fd >= 0 || waiting[1].fd >= 0) {
        if (poll(waiting, 3, 1000) < 0 && errno != EINTR)
            return;
        for (int i = 0; i < 2; i++)
            if (waiting[i].fd >= 0 && waiting[i].revents != 0 && !pass_some(&streams[i], r))
                waiting[i].fd = -1;
        if (waiting[2].revents != 0)
            take_signal(l);
        pass_signal(l, r);
        look_for_beat(l, r);
    }
}

/* Starts the command with the other ends of its streams (0 to 2, as it knows them) here, out of
   reach of the terminal's Ctrl-C, which this process passes on. */
static pid_t start(char **command, const sigset_t *before, int ours[3]) {
    int ends[3][2], n = 0;
    while (n < 3 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends[n]) == 0)
        n++;
    fflush(NULL);
    pid_t child = n == 3 ? fork() : -1;
    if (child == 0) {
        setpgid(0, 0);
        sigprocmask(SIG_SETMASK, before, NULL);
        for (int i = 0; i < 3; i++)
            dup2(ends[i][1], i);
        /* UCX, below MPICH, logs to stdout if nothing else is said; results go there.  It looks
           when it is loaded, so this can't wait until the ranks run. */
        setenv("UCX_LOG_FILE", "stderr", 0);
        setenv(CLEAVE_BEATS_VARIABLE, "1", 1);
        setenv("OMP_NUM_THREADS", "1",
               1); /* a device is a rank: threads under several ranks fight */
        execv(command[0], command);
        _exit(127);
    }
    for (int i = 0; i < n; i++) {
        ours[i] = ends[i][0];
        close(ends[i][1]);
        if (child < 0)
            close(ours[i]);
    }
    return child;
}

/* Waits for the end of the launcher and its ranks; its exit code, or -1. */
static int run_launcher(char **command, report *said, launched *l, cleave_error *error) {
    stream streams[2] = {{.to = stdout}, {.to = stderr}};
    sigset_t ends, before;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, &before);
    int state = 0;
    l->signals = signalfd(-1, &ends, SFD_CLOEXEC);
    int ours[3];
    l->launcher = start(command, &before, ours);
    if (l->launcher < 0) {
        cleave_fail(error, CLEAVE_FAILED, "starting %s: %s", CLEAVE_MPI_LAUNCHER, strerror(errno));
    } else {
        l->input = ours[0];
        for (int i = 0; i < 2; i++)
            streams[i].from = ours[i + 1];
        pass_all(streams, said, l);
        close(l->input);
        close(streams[0].from);
        close(streams[1].from);
        while (waitpid(l->launcher, &state, 0) < 0 && errno == EINTR)
            ;
    }
    if (l->signals >= 0)
        close(l->signals);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (l->launcher < 0)
        return -1;
    return WIFEXITED(state) ? WEXITSTATUS(state) : 1;
}

/* Of an end with a code that is not 0; OK where a rank has said what there is to say. */
static cleave_status explain(const report *said, const launched *l, int code, cleave_error *error) {
    if (code == 127)
        return cleave_fail(error, CLEAVE_FAILED, "the MPI launcher %s can't be started",
                           CLEAVE_MPI_LAUNCHER);
    if (said->complained)
        return CLEAVE_OK;
    if (l->hung)
        return cleave_fail(error, CLEAVE_FAILED,
                           "stalled: the ranks gave no sign for %g s, so the run was ended",
                           l->patience_seconds);
    if (l->told_to_end)
        return cleave_fail(error, CLEAVE_FAILED, "ended by a signal");
    return cleave_fail(error, CLEAVE_FAILED, "a rank died%s%s, so the run was ended",
                       said->ending[0] != '\0' ? ": " : "", said->ending);
}

/* The launcher's words before those of the program; returns how many. */
static int put_launcher(const char *hosts, char count[16], char **command) {
    int n = 0;
    command[n++] = (char *)CLEAVE_MPI_LAUNCHER;
    if (hosts != NULL) {
        command[n++] = (char *)"-hosts";
        command[n++] = (char *)(uintptr_t)hosts; /* exec does not write to it */
    }
    command[n++] = (char *)"-n";
    command[n++] = count;
    return n;
}

cleave_status cleave_launch_ranks(const cleave_launch *how, char *const *arguments, int *exit_code,
                                  bool *told_to_end, cleave_error *error) {
    int n = 0;
    while (arguments[n] != NULL)
        n++;
    char count[16], **command = calloc((size_t)n + LAUNCHER_WORDS + 1, sizeof *command);
    if (command == NULL)
        return cleave_fail_memory(error, "starting ranks");
    snprintf(count, sizeof count, "%d", how->n_ranks);
    int n_words = put_launcher(how->hosts, count, command);
    memcpy(command + n_words, arguments, (size_t)n * sizeof *command);
    const char *slash = strrchr(arguments[0], '/');
    report said = {.program = slash != NULL ? slash + 1 : arguments[0]};
    launched l = {.patience_seconds = how->patience_seconds};
    int code = run_launcher(command, &said, &l, error);
    free(command);
    if (code < 0)
        return CLEAVE_FAILED;
    *told_to_end = l.told_to_end;
    /* Of ranks that it ended, too, the launcher may say that all is well. */
    if (code == 0 && (said.code != 0 || (l.told_to_end && !said.has_last_beat)))
        code = CLEAVE_FAILED;
    if (code != 0)
        CLEAVE_TRY(explain(&said, &l, code, error));
    *exit_code = code != 0 && said.code != 0 ? said.code : code;
    return CLEAVE_OK;
}

/* ---- asking hosts -----------------------------------------------------------------------------
 */

typedef struct question {
    pid_t launcher; /* 0: it has ended */
    FILE *errors;
} question;

/* Without a terminal, so that nothing below the launcher can ask for a password there. */
static cleave_status ask(const char *program, const char *host, question *q, cleave_error *error) {
    char count[16] = "1", *command[LAUNCHER_WORDS + 3] = {NULL};
    int n = put_launcher(host, count, command);
    command[n++] = (char *)(uintptr_t)program;
    command[n++] = (char *)"--version";
    q->errors = tmpfile();
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    q->launcher = q->errors != NULL && nothing >= 0 ? fork() : -1;
    if (q->launcher == 0) {
        setsid();
        if (dup2(nothing, 0) >= 0 && dup2(nothing, 1) >= 0 && dup2(fileno(q->errors), 2) >= 0)
            execv(command[0], command);
        _exit(127);
    }
    if (nothing >= 0)
        close(nothing);
    return q->launcher > 0 ? CLEAVE_OK
                           : cleave_fail(error, CLEAVE_FAILED, "starting %s: %s",
                                         CLEAVE_MPI_LAUNCHER, strerror(errno));
}

/* The launcher's first line, else how it ended. */
static cleave_status explain_answer(question *q, const char *otherwise, cleave_arena *arena,
                                    cleave_launch_answer *answer, cleave_error *error) {
    char line[256] = "";
    rewind(q->errors);
    if (fgets(line, sizeof line, q->errors) == NULL)
        line[0] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    /* "[proxy:0:0@host3] FUNCTION (FILE:141): unable to connect ..." */
    const char *behind = line[0] == '[' ? strstr(line, "): ") : NULL, *said = line;
    if (behind != NULL)
        said = behind + 3;
    answer->reason = cleave_arena_string(arena, said[0] != '\0' ? said : otherwise);
    return answer->reason != NULL ? CLEAVE_OK : cleave_fail_memory(error, "asking hosts");
}

/* Is there an answer?  With the time over there is one, too. */
static bool look(question *q, bool is_over, cleave_launch_answer *answer) {
    int state = 0;
    if (waitpid(q->launcher, &state, WNOHANG) == q->launcher) {
        q->launcher = 0;
        answer->is_there = WIFEXITED(state) && WEXITSTATUS(state) == 0;
        return true;
    }
    if (!is_over)
        return false;
    kill(-q->launcher, SIGKILL); /* and all that it started here */
    while (waitpid(q->launcher, &state, 0) < 0 && errno == EINTR)
        ;
    q->launcher = 0;
    return true;
}

static void wait_for_answers(question *questions, int32_t n, double seconds,
                             cleave_launch_answer *answers) {
    double until = cleave_clock_seconds() + seconds;
    for (int32_t n_left = n; n_left > 0;) {
        bool is_over = cleave_clock_seconds() > until;
        n_left = 0;
        for (int32_t i = 0; i < n; i++)
            n_left += questions[i].launcher > 0 && !look(&questions[i], is_over, &answers[i]);
        if (n_left > 0)
            nanosleep(&(struct timespec){.tv_nsec = LOOK_NANOSECONDS}, NULL);
    }
}

static cleave_status ask_some(const char *program, const char *const *hosts, int32_t n,
                              double seconds, cleave_arena *arena, cleave_launch_answer *answers,
                              cleave_error *error) {
    question questions[MOST_ASKED_AT_ONCE] = {{0}};
    char late[64];
    cleave_status status = CLEAVE_OK;
    snprintf(late, sizeof late, "no answer within %g s", seconds);
    for (int32_t i = 0; i < n && status == CLEAVE_OK; i++)
        status = ask(program, hosts[i], &questions[i], error);
    wait_for_answers(questions, n, status == CLEAVE_OK ? seconds : 0, answers);
    for (int32_t i = 0; i < n; i++) {
        if (status == CLEAVE_OK && !answers[i].is_there)
            status = explain_answer(&questions[i], late, arena, &answers[i], error);
        if (questions[i].errors != NULL)
            fclose(questions[i].errors);
    }
    return status;
}

cleave_status cleave_launch_ask(const char *program, const char *const *hosts, int32_t n,
                                double seconds, cleave_arena *arena, cleave_launch_answer *answers,
                                cleave_error *error) {
    memset(answers, 0, (size_t)n * sizeof *answers);
    for (int32_t i = 0; i < n; i += MOST_ASKED_AT_ONCE)
        CLEAVE_TRY(ask_some(program, hosts + i,
                            n - i < MOST_ASKED_AT_ONCE ? n - i : MOST_ASKED_AT_ONCE, seconds, arena,
                            answers + i, error));
    return CLEAVE_OK;
}
