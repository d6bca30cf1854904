/* Whole files, read at once and written under a temporary name. */
#include "base/file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

cleave_status cleave_file_read(const char *path, cleave_arena *arena, char **data, size_t *bytes,
                               cleave_error *error) {
    FILE *stream = fopen(path, "rb");
    if (stream == NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: %s", path, strerror(errno));
    struct stat info;
    cleave_status status = CLEAVE_OK;
    char *buffer = NULL;
    size_t size = 0;
    if (fstat(fileno(stream), &info) != 0 || !S_ISREG(info.st_mode)) {
        status = cleave_fail(error, CLEAVE_BAD_INPUT, "%s: not a regular file", path);
    } else {
        size = (size_t)info.st_size;
        buffer = cleave_arena_alloc(arena, size + 1, 1);
        if (buffer == NULL)
            status =
                cleave_fail(error, CLEAVE_FAILED, "%s: out of memory for %zu bytes", path, size);
        else if (fread(buffer, 1, size, stream) != size)
            status = cleave_fail(error, CLEAVE_BAD_INPUT, "%s: could not be read whole", path);
    }
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
    if (strlen(path) >= sizeof writer->path)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: the path is too long", path);
    /* What is renamed would take the place of a device. */
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: can't be written: it is %s", path,
                           S_ISDIR(info.st_mode) ? "a folder" : "no regular file");
    strcpy(writer->path, path);
    snprintf(writer->temporary, sizeof writer->temporary, "%s.tmp-%ld", path, (long)getpid());
    writer->stream = fopen(writer->temporary, "wb");
    if (writer->stream == NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: can't be written: %s", path,
                           strerror(errno));
    return CLEAVE_OK;
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
        fsync(fileno(writer->stream)) != 0 || rename(writer->temporary, writer->path) != 0) {
        int reason = errno;
        cleave_file_writer_abandon(writer);
        return cleave_fail(error, CLEAVE_FAILED, "%s: could not be written: %s", writer->path,
                           strerror(reason));
    }
    fclose(writer->stream);
    writer->stream = NULL;
    return CLEAVE_OK;
}

cleave_status cleave_file_write(const char *path, const void *data, size_t bytes,
                                cleave_error *error) {
    cleave_file_writer writer;
    CLEAVE_TRY(cleave_file_writer_open(&writer, path, error));
    fwrite(data, 1, bytes, writer.stream); /* commit sees the error flag */
    return cleave_file_writer_commit(&writer, error);
}
