/* Connections whose records a crypto module does, which may fail: what arrives is what was sent. */

#include "host.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* So long a module may take to be found and opened. */
#define LONGEST_START 60

enum { CONNECTIONS = 2, PIECE = 32 << 10 };

/* How many pieces are sent each way over each connection. */
#ifndef PIECES
#define PIECES 24
#endif

static struct connection make(int version, const char *suite, const char *of_client, uint64_t options,
                              const char *certificate, const char *key)
{
    SSL_CTX *server = make_end(1, version, suite, "?" OURS, certificate, key);
    SSL_CTX_set_options(server, options);
    SSL_CTX *client = make_end(0, version, suite, of_client, NULL, NULL);
    struct connection connection = connect_ends(server, client, NULL);
    SSL_CTX_free(server);
    SSL_CTX_free(client);
    return connection;
}

static void both_ways(struct connection connection)
{
    transfer(connection.server, connection.client, PIECE);
    transfer(connection.client, connection.server, PIECE);
}

/* Goes on with a connection until the module does some of its records in this process. */
static void until_used(struct connection connection, const char *counters)
{
    time_t start = time(NULL);
    uint64_t before = counted(counters).module_records;
    while (counted(counters).module_records == before) {
        EXPECT(time(NULL) - start < LONGEST_START);
        both_ways(connection);
    }
}

/* What a child does with a connection of its parent's while the parent goes on with another one.
 * Where it has not the right to open the device, the processor does it all. */
static void in_child(struct connection connection, const char *counters, int has_rights)
{
    if (!has_rights)
        EXPECT(setgid(65534) == 0 && setuid(65534) == 0);
    if (has_rights)
        until_used(connection, counters);
    for (int piece = 0; piece < PIECES; piece++)
        both_ways(connection);
    _exit(0);
}

static void fork_with(struct connection *connections, const char *counters, int has_rights,
                      int is_daemon)
{
    int status;
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0 && is_daemon) {
        child = fork();
        EXPECT(child >= 0);
        if (child > 0) {
            EXPECT(waitpid(child, &status, 0) == child && status == 0);
            _exit(0);
        }
    }
    if (child == 0)
        in_child(connections[0], counters, has_rights);
    for (int piece = 0; piece < PIECES; piece++)
        both_ways(connections[1]);
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    EXPECT(has_rights || counted_by(counters, child).module_records == 0);
}

/* A device that is wrong in the same way at both ends is seen by OpenSSL's own cipher only. */
static void make_both(const char *mode, struct connection *connections, const char *certificate,
                      const char *key)
{
    if (strcmp(mode, "gcm") == 0) {
        connections[0] = make(TLS1_2_VERSION, "ECDHE-ECDSA-AES256-GCM-SHA384", "?" OURS, 0,
                              certificate, key);
        connections[1] = make(TLS1_3_VERSION, "TLS_AES_128_GCM_SHA256", THEIRS, 0, certificate,
                              key);
    } else {
        connections[0] = make(TLS1_2_VERSION, "ECDHE-ECDSA-AES256-SHA384", "?" OURS,
                              SSL_OP_NO_ENCRYPT_THEN_MAC, certificate, key);
        connections[1] = make(TLS1_2_VERSION, "ECDHE-ECDSA-AES128-SHA256", THEIRS, 0, certificate,
                              key);
    }
}

/* Goes on with a connection until something is said of the module on standard error, which is a file. */
static void until_told(struct connection connection)
{
    struct stat said;
    time_t start = time(NULL);
    do {
        EXPECT(time(NULL) - start < LONGEST_START);
        both_ways(connection);
        EXPECT(fstat(STDERR_FILENO, &said) == 0 && S_ISREG(said.st_mode));
    } while (said.st_size == 0);
}

void test_module(const char *device, const char *mode, const char *certificate, const char *key,
                 const char *counters)
{
    struct connection connections[CONNECTIONS];
    make_both(mode, connections, certificate, key);
    int is_good = strcmp(device, "good") == 0, is_absent = strcmp(device, "absent") == 0;
    if (is_absent)
        until_told(connections[0]);
    else
        until_used(connections[0], counters);
    for (int piece = 0; piece < PIECES; piece++)
        for (int index = 0; index < CONNECTIONS; index++)
            both_ways(connections[index]);
    if (is_good) {
        until_used(connections[1], counters);
        /* Handshakes and short connections are not the module's. */
        uint64_t before = counted(counters).module_records;
        struct connection other = make(TLS1_3_VERSION, "TLS_AES_256_GCM_SHA384", "?" OURS, 0,
                                       certificate, key);
        both_ways(other);
        EXPECT(counted(counters).module_records == before);
        disconnect(other);
        fork_with(connections, counters, 1, 0);
        fork_with(connections, counters, 1, 1);
        fork_with(connections, counters, 0, 0);
        until_used(connections[0], counters);
    }
    struct count count = counted(counters);
    EXPECT(count.forged == 0 && (!is_absent || count.module_records == 0));
    printf("%llu of %llu records by the module\n", (unsigned long long)count.module_records,
           (unsigned long long)(count.sealed_records + count.opened_records));
    for (int index = 0; index < CONNECTIONS; index++)
        disconnect(connections[index]);
}
