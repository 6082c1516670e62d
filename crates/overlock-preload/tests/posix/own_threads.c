/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * With LIBRARY, a library that has locks of its own under C11's names, as those for systems without <threads.h> do:
 * of another type, and with other results. Without, a program that uses it.
 */
int locks_are_its_own(void);

#ifdef LIBRARY
enum { MINE = 7 };

struct mine {
	int taken;
};

int mtx_lock(struct mine *mutex);
int mtx_unlock(struct mine *mutex);
int cnd_signal(struct mine *cond);

int mtx_lock(struct mine *mutex)
{
	mutex->taken++;
	return MINE;
}

int mtx_unlock(struct mine *mutex)
{
	mutex->taken--;
	return MINE;
}

int cnd_signal(struct mine *cond)
{
	cond->taken += 2;
	return MINE;
}

int locks_are_its_own(void)
{
	static struct mine mine;

	if (mtx_lock(&mine) != MINE || cnd_signal(&mine) != MINE)
		return 0;
	return mine.taken == 3 && mtx_unlock(&mine) == MINE;
}
#else
int main(void)
{
	return !locks_are_its_own();
}
#endif
