// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "net/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// ---- A free address --------------------------------------------------------
static ls_status refuse_port(const char *reason) {
  return LS_STATUS(LS_UNAVAILABLE, "no free port of this machine: %s: %s",
                   reason, strerror(errno));
}

// Returns the first address of an interface that is up and not a loopback.
static struct in_addr own_address(void) {
  struct in_addr found = {.s_addr = htonl(INADDR_LOOPBACK)};
  struct ifaddrs *interfaces = NULL;
  if (getifaddrs(&interfaces) != 0) return found;
  for (const struct ifaddrs *at = interfaces; at != NULL; at = at->ifa_next) {
    if (at->ifa_addr == NULL || at->ifa_addr->sa_family != AF_INET ||
        (at->ifa_flags & IFF_UP) == 0 || (at->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    struct sockaddr_in address;
    memcpy(&address, at->ifa_addr, sizeof(address));
    found = address.sin_addr;
    break;
  }
  freeifaddrs(interfaces);
  return found;
}

ls_status ls_net_free_address(char address[LS_FREE_ADDRESS]) {
  struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = own_address()};
  socklen_t size = sizeof(name);
  address[0] = '\0';
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return refuse_port("socket");
  ls_status status = ls_ok();
  if (bind(fd, (struct sockaddr *)&name, size) != 0)
    status = refuse_port("bind");
  else if (getsockname(fd, (struct sockaddr *)&name, &size) != 0)
    status = refuse_port("getsockname");
  close(fd);
  LS_RETURN_IF_ERROR(status);
  char host[INET_ADDRSTRLEN];
  if (inet_ntop(AF_INET, &name.sin_addr, host, sizeof(host)) == NULL)
    return refuse_port("inet_ntop");
  snprintf(address, LS_FREE_ADDRESS, "%s:%d", host, ntohs(name.sin_port));
  return ls_ok();
}
