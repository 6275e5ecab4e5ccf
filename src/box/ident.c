/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Identity and capabilities. Root of the machine becomes nobody unless told
 * otherwise; root of another user namespace stays what it is, since it has no
 * rights outside and others may not be mapped (ISO-3). Refuses to read a
 * malformed --runas as anything else.
 */
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cap-ng.h>

#include "box/ident.h"

#define NOBODY		65534
#define INITIAL_USERNS	0xEFFFFFFDul	/* inode number, fixed in the kernel since 3.8 */

bool box_userns_is_initial(void)
{
	unsigned long inside = 0, outside = 1, cnt = 0;
	struct stat st;
	bool whole;
	FILE *f;

	if (!stat("/proc/self/ns/user", &st))
		return st.st_ino == INITIAL_USERNS;

	/* The initial one maps all ids to themselves; without /proc assume it, as the safer case */
	f = fopen("/proc/self/uid_map", "re");
	if (!f)
		return true;
	whole = fscanf(f, "%lu %lu %lu", &inside, &outside, &cnt) == 3 && !inside && !outside && cnt == UINT32_MAX;
	fclose(f);
	return whole;
}

/* Number in any C base up to END: 0, -EINVAL: not a number */
static int id_number(const char *text, const char *end, unsigned long *ret)
{
	char *stop;

	if (text == end || *text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	*ret = strtoul(text, &stop, 0);
	/* The largest value means "no change" to the kernel */
	return stop == end && !errno && *ret < UINT32_MAX ? 0 : -EINVAL;
}

static int id_names(const char *login, const char *group, struct box_identity *ret)
{
	const struct passwd *pw = getpwnam(login);
	const struct group *gr;

	if (!pw || !pw->pw_uid)
		return -EINVAL;
	ret->uid = pw->pw_uid;
	ret->gid = pw->pw_gid;
	if (group) {
		gr = getgrnam(group);
		if (!gr)
			return -EINVAL;
		ret->gid = gr->gr_gid;
	}
	return 0;
}

static int id_parse(const char *runas, struct box_identity *ret)
{
	const char *colon = strchr(runas, ':');
	const char *uid_end = colon ? colon : runas + strlen(runas);
	unsigned long uid, gid;
	char login[256];

	if (!id_number(runas, uid_end, &uid)) {
		gid = uid;
		if (colon && id_number(colon + 1, colon + strlen(colon), &gid))
			return -EINVAL;
		ret->uid = (uid_t)uid;
		ret->gid = (gid_t)gid;
		return 0;
	}
	if (uid_end == runas || (size_t)(uid_end - runas) >= sizeof(login) || (*runas >= '0' && *runas <= '9'))
		return -EINVAL;
	memcpy(login, runas, (size_t)(uid_end - runas));
	login[uid_end - runas] = '\0';
	return id_names(login, colon ? colon + 1 : NULL, ret);
}

int box_identity_decide(const char *runas, struct box_identity *ret, struct err *e)
{
	const struct passwd *pw;

	*ret = (struct box_identity){ .uid = geteuid(), .gid = getegid() };
	if (runas) {
		if (id_parse(runas, ret))
			return err_set(e, -EINVAL, "--runas %s: no such user or group, or a name that means root; use UID[:GID] or LOGIN[:GROUP]", runas);
		ret->change = ret->uid != geteuid() || ret->gid != getegid();
		return 0;
	}
	if (geteuid() || !box_userns_is_initial())
		return 0;
	pw = getpwnam("nobody");
	ret->uid = pw && pw->pw_uid ? pw->pw_uid : NOBODY;
	ret->gid = pw && pw->pw_uid ? pw->pw_gid : NOBODY;
	ret->change = ret->nobody = true;
	return 0;
}

int box_bounds_drop(struct err *e)
{
	int rc;

	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (capng_get_caps_process() || !capng_have_capability(CAPNG_EFFECTIVE, CAP_SETPCAP))
		return 0;
	capng_clear(CAPNG_SELECT_BOUNDS);
	rc = capng_apply(CAPNG_SELECT_BOUNDS);
	return rc ? err_set(e, -EPERM, "Cannot clear the capability bounding set (%i)", rc) : 0;
}

int box_identity_apply(const struct box_identity *id, struct err *e)
{
	if (!id->change)
		return 0;
	/* Without the right to, or where a user namespace denies it, there is nothing to gain by it either */
	if (setgroups(0, NULL) && errno != EPERM)
		return err_set(e, -errno, "Cannot drop supplementary groups: %s", strerror(errno));
	if (setresgid(id->gid, id->gid, id->gid))
		return err_set(e, -errno, "Cannot become group %u: %s; only root can run us as someone else", id->gid, strerror(errno));
	if (setresuid(id->uid, id->uid, id->uid))
		return err_set(e, -errno, "Cannot become user %u: %s; only root can run us as someone else", id->uid, strerror(errno));
	return 0;
}

int box_caps_drop(uint64_t keep, struct err *e)
{
	uint64_t have = 0;
	int rc;

	if (capng_get_caps_process())
		return err_set(e, -EPERM, "Cannot read our capabilities");
	for (unsigned int cap = 0; cap <= CAP_LAST_CAP; cap++) {
		if (capng_have_capability(CAPNG_PERMITTED, cap))
			have |= UINT64_C(1) << cap;
	}

	capng_clear(CAPNG_SELECT_CAPS);
	for (unsigned int cap = 0; cap <= CAP_LAST_CAP; cap++) {
		if (keep & have & (UINT64_C(1) << cap))
			capng_update(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED, cap);
	}
	rc = capng_apply(CAPNG_SELECT_CAPS);
	if (rc)
		return err_set(e, -EPERM, "Cannot drop capabilities (%i)", rc);
	return 0;
}

int box_seal(struct err *e)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		return err_set(e, -errno, "Cannot give up gaining privileges: %s", strerror(errno));
	return 0;
}
