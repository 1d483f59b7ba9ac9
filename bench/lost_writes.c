/* What a power cut takes: counts what a process does below a folder, keeps what it flushes, and kills it at one event.

   A flushed file is copied to KEPT/f<inode>, the names in a flushed folder go to KEPT/d<inode>. Nothing else is sure. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[PATH_MAX], kept[PATH_MAX], deaf[256];
static long at[2], count[2]; /* of all events, and of flushes and changes of names alone */
static int active;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

void lost_begin(const char *folder, const char *place, const char *forgotten, long any, long named) {
    snprintf(root, sizeof root, "%s/", folder), snprintf(kept, sizeof kept, "%s", place);
    snprintf(deaf, sizeof deaf, "%s", forgotten);
    at[0] = any, at[1] = named, count[0] = count[1] = 0, active = 1;
}

long lost_count(int named) { return count[named]; }

static int ours(const char *path) { return active && !strncmp(path, root, strlen(root) - 1); }

static void event(const char *path, int named) { /* before it happens */
    if (!ours(path)) return;
    for (int kind = 0; kind <= named; kind++)
        if (++count[kind] == at[kind]) kill(getpid(), SIGKILL);
}

static const char *path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = active ? readlink(link, path, PATH_MAX - 1) : 0;
    path[size > 0 ? size : 0] = 0;
    return path;
}

static void keep(int fd, const char *path) {
    struct stat status;
    char name[PATH_MAX + 32], block[1 << 16];
    if (!ours(path) || (*deaf && strstr(path, deaf)) || fstat(fd, &status)) return;
    int folder = S_ISDIR(status.st_mode);
    snprintf(name, sizeof name, "%s/%c%lu", kept, folder ? 'd' : 'f', (unsigned long)status.st_ino);
    FILE *copy = fopen(name, "w");
    if (folder) {
        DIR *names = opendir(path);
        for (struct dirent *entry; (entry = readdir(names));)
            if (*entry->d_name != '.' || (entry->d_name[1] && strcmp(entry->d_name, "..")))
                fprintf(copy, "%lu %s\n", (unsigned long)entry->d_ino, entry->d_name);
        closedir(names);
    } else {
        int source = open(path, O_RDONLY); /* the descriptor may be for writing only */
        for (ssize_t size; source >= 0 && (size = read(source, block, sizeof block)) > 0;) fwrite(block, 1, size, copy);
        close(source);
    }
    fclose(copy);
}

#define FLUSH(name) \
    int name(int fd) { \
        char path[PATH_MAX]; \
        event(path_of(fd, path), 1); \
        int answer = REAL(name)(fd); \
        keep(fd, path); \
        return answer; \
    }
FLUSH(fsync)
FLUSH(fdatasync)

#define WRITE(type, name, declared, passed) \
    type name declared { \
        char path[PATH_MAX]; \
        event(path_of(fd, path), 0); \
        return REAL(name) passed; \
    }
WRITE(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
WRITE(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t place), (fd, data, size, place))
WRITE(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t place), (fd, data, size, place))
WRITE(int, ftruncate, (int fd, off_t size), (fd, size))
WRITE(int, ftruncate64, (int fd, off64_t size), (fd, size))

#define NAMES(name, declared, path, passed) \
    int name declared { \
        event(path, 1); \
        return REAL(name) passed; \
    }
NAMES(rename, (const char *from, const char *to), to, (from, to))
NAMES(renameat2, (int in, const char *from, int below, const char *to, unsigned how), to, (in, from, below, to, how))
NAMES(unlink, (const char *path), path, (path))
NAMES(rmdir, (const char *path), path, (path))
NAMES(mkdir, (const char *path, mode_t mode), path, (path, mode))
