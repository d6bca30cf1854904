/* Whole files, read at once and written under a temporary name. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sync_file_range */
#endif
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BYTES_UNDER_WAY = 8 << 20, /* put between two words to the system */
    PIECE_BYTES = 1 << 20
};

const char *cleave_file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static cleave_status check_kind(int descriptor, const char *path, int64_t *bytes,
                                cleave_error *error) {
    static const char pointer[] = "version https://git-lfs.github.com/spec/";
    char begin[sizeof pointer - 1];
    struct stat info;
    if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode))
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: not a regular file", path);
    if (pread(descriptor, begin, sizeof begin, 0) == (ssize_t)sizeof begin &&
        memcmp(begin, pointer, sizeof begin) == 0)
        return cleave_fail(
            error, CLEAVE_BAD_INPUT,
            "%s: a pointer of Git LFS in place of the file: \"git lfs pull\" gets it", path);
    *bytes = (int64_t)info.st_size;
    return CLEAVE_OK;
}

cleave_status cleave_file_open(const char *path, FILE **stream, int64_t *bytes,
                               cleave_error *error) {
    int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    FILE *opened = descriptor >= 0 ? fdopen(descriptor, "rb") : NULL;
    if (opened == NULL) {
        if (descriptor >= 0)
            close(descriptor);
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: %s", path, strerror(errno));
    }
    cleave_status status = check_kind(descriptor, path, bytes, error);
    if (status == CLEAVE_OK)
        *stream = opened;
    else
        fclose(opened);
    return status;
}

cleave_status cleave_file_read(const char *path, cleave_arena *arena, char **data, size_t *bytes,
                               cleave_error *error) {
    FILE *stream;
    int64_t length;
    CLEAVE_TRY(cleave_file_open(path, &stream, &length, error));
    cleave_status status = CLEAVE_OK;
    size_t size = (size_t)length;
    char *buffer = cleave_arena_alloc(arena, size + 1, 1);
    if (buffer == NULL)
        status = cleave_fail(error, CLEAVE_FAILED, "%s: out of memory for %zu bytes", path, size);
    else if (fread(buffer, 1, size, stream) != size)
        status = cleave_fail(error, CLEAVE_BAD_INPUT, "%s: could not be read whole", path);
    fclose(stream);
    if (status == CLEAVE_OK) {
        *data = buffer;
        *bytes = size;
    }
    return status;
}

cleave_status cleave_file_writer_open(cleave_file_writer *writer, const char *path,
                                      cleave_error *error) {
    *writer = (cleave_file_writer){0};
    struct stat info;
    if (path[0] == '\0')
        return cleave_fail(error, CLEAVE_BAD_INPUT, "a file without a name can't be written");
    if (strlen(path) >= sizeof writer->path)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: the path is too long", path);
    /* What is renamed would take the place of a device. */
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: can't be written: it is %s", path,
                           S_ISDIR(info.st_mode) ? "a folder" : "no regular file");
    strcpy(writer->path, path);
    snprintf(writer->temporary, sizeof writer->temporary, "%s.tmp-%ld", path, (long)getpid());
    cleave_checksum_begin(&writer->sum);
    writer->stream = fopen(writer->temporary, "wb");
    if (writer->stream == NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: can't be written: %s", path,
                           strerror(errno));
    return CLEAVE_OK;
}

cleave_status cleave_file_writer_open_within(cleave_file_writer *writer, const char *folder,
                                             const char *name, cleave_error *error) {
    *writer = (cleave_file_writer){0};
    size_t n = (size_t)snprintf(writer->path, sizeof writer->path, "%s/%s", folder, name);
    if (n >= sizeof writer->path)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: the path is too long", folder);
    strcpy(writer->temporary, writer->path);
    cleave_checksum_begin(&writer->sum);
    int descriptor =
        open(writer->path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor >= 0 && (writer->stream = fdopen(descriptor, "wb")) == NULL)
        close(descriptor);
    return writer->stream != NULL ? CLEAVE_OK
                                  : cleave_fail(error, CLEAVE_FAILED, "%s: can't be written: %s",
                                                writer->path, strerror(errno));
}

cleave_status cleave_file_writer_put(cleave_file_writer *writer, const void *data, size_t bytes,
                                     cleave_error *error) {
    uint64_t before = writer->sum.bytes;
    if (fwrite(data, 1, bytes, writer->stream) != bytes)
        return cleave_fail(error, CLEAVE_FAILED, "%s: could not be written: %s", writer->path,
                           strerror(errno));
    cleave_checksum_add(&writer->sum, data, bytes);
#ifdef __linux__
    if (before / BYTES_UNDER_WAY != writer->sum.bytes / BYTES_UNDER_WAY)
        sync_file_range(fileno(writer->stream), 0, 0, SYNC_FILE_RANGE_WRITE);
#else
    (void)before;
#endif
    return CLEAVE_OK;
}

cleave_status cleave_folder_sync(const char *path, cleave_error *error) {
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Some file systems have nothing to write down for a folder, and one that can't be listed can't
       be opened. */
    bool synced = descriptor >= 0 ? fsync(descriptor) == 0 || errno == EINVAL : errno == EACCES;
    int reason = errno;
    if (descriptor >= 0)
        close(descriptor);
    return synced ? CLEAVE_OK
                  : cleave_fail(error, CLEAVE_FAILED, "%s: could not be written: %s", path,
                                strerror(reason));
}

/* The folder of the file's name. */
static cleave_status sync_place(const cleave_file_writer *writer, cleave_error *error) {
    char folder[sizeof writer->path];
    strcpy(folder, writer->path);
    char *slash = strrchr(folder, '/');
    if (slash == NULL)
        strcpy(folder, ".");
    else
        slash[slash == folder ? 1 : 0] = '\0';
    return cleave_folder_sync(folder, error);
}

cleave_status cleave_file_read_at(int descriptor, const char *path, int64_t at, void *data,
                                  size_t bytes, cleave_error *error) {
    for (size_t done = 0; done < bytes;) {
        ssize_t got =
            pread(descriptor, (char *)data + done, bytes - done, (off_t)(at + (int64_t)done));
        if (got <= 0 && !(got < 0 && errno == EINTR))
            return cleave_fail(error, CLEAVE_FAILED, "%s: byte %lld can't be read", path,
                               (long long)(at + (int64_t)done));
        done += got > 0 ? (size_t)got : 0;
    }
    return CLEAVE_OK;
}

/* Pieces of the file, `apart` bytes from one to the next. */
static bool sum_pieces(int descriptor, int64_t bytes, int64_t apart, uint64_t *checksum) {
    cleave_checksum sum;
    char *piece = malloc(PIECE_BYTES);
    bool done = piece != NULL;
    cleave_checksum_begin(&sum);
    for (int64_t at = 0; at < bytes && done; at += apart) {
        int64_t n = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        done = cleave_file_read_at(descriptor, "", at, piece, (size_t)n, NULL) == CLEAVE_OK;
        if (done)
            cleave_checksum_add(&sum, piece, (size_t)n);
    }
    free(piece);
    *checksum = cleave_checksum_value(&sum);
    return done;
}

cleave_status cleave_file_checksum(const char *path, int64_t most, int64_t *bytes,
                                   uint64_t *checksum, cleave_error *error) {
    FILE *stream;
    CLEAVE_TRY(cleave_file_open(path, &stream, bytes, error));
    int64_t apart = *bytes > most ? *bytes / (most / PIECE_BYTES) : PIECE_BYTES;
    bool done = sum_pieces(fileno(stream), *bytes, apart, checksum);
    fclose(stream);
    return done ? CLEAVE_OK : cleave_fail(error, CLEAVE_BAD_INPUT, "%s: can't be read", path);
}

cleave_file_stamp cleave_file_stamp_take(int descriptor) {
    struct stat info;
    if (fstat(descriptor, &info) != 0)
        return (cleave_file_stamp){.bytes = -1};
    return (cleave_file_stamp){(int64_t)info.st_size, (int64_t)info.st_mtim.tv_sec,
                               (int64_t)info.st_mtim.tv_nsec};
}

cleave_status cleave_file_stamp_check(const cleave_file_stamp *stamp, int descriptor,
                                      const char *path, cleave_error *error) {
    cleave_file_stamp now = cleave_file_stamp_take(descriptor);
    if (now.bytes == stamp->bytes && now.seconds == stamp->seconds &&
        now.nanoseconds == stamp->nanoseconds)
        return CLEAVE_OK;
    return cleave_fail(error, CLEAVE_FAILED,
                       "%s: was written to while it was in use: it had %lld bytes and has %lld",
                       path, (long long)stamp->bytes, (long long)now.bytes);
}

void cleave_file_writer_abandon(cleave_file_writer *writer) {
    if (writer->stream != NULL) {
        fclose(writer->stream);
        writer->stream = NULL;
        unlink(writer->temporary);
    }
}

cleave_status cleave_file_writer_commit(cleave_file_writer *writer, cleave_error *error) {
    if (fflush(writer->stream) != 0 || ferror(writer->stream) != 0 ||
        fsync(fileno(writer->stream)) != 0 ||
        (strcmp(writer->temporary, writer->path) != 0 &&
         rename(writer->temporary, writer->path) != 0)) {
        int reason = errno;
        cleave_file_writer_abandon(writer);
        return cleave_fail(error, CLEAVE_FAILED, "%s: could not be written: %s", writer->path,
                           strerror(reason));
    }
    fclose(writer->stream);
    writer->stream = NULL;
    return sync_place(writer, error);
}

cleave_status cleave_file_write(const char *path, const void *data, size_t bytes,
                                cleave_error *error) {
    cleave_file_writer writer;
    CLEAVE_TRY(cleave_file_writer_open(&writer, path, error));
    fwrite(data, 1, bytes, writer.stream); /* commit sees the error flag */
    return cleave_file_writer_commit(&writer, error);
}
