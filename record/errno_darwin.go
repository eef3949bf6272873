package record

import "syscall"

var systemErrnos = []namedErrno{
	{"EAUTH", syscall.EAUTH},
	{"EBADARCH", syscall.EBADARCH},
	{"EBADEXEC", syscall.EBADEXEC},
	{"EBADMACHO", syscall.EBADMACHO},
	{"EBADRPC", syscall.EBADRPC},
	{"EDEVERR", syscall.EDEVERR},
	{"EFTYPE", syscall.EFTYPE},
	{"EMULTIHOP", syscall.EMULTIHOP},
	{"ENEEDAUTH", syscall.ENEEDAUTH},
	{"ENOATTR", syscall.ENOATTR},
	{"ENODATA", syscall.ENODATA},
	{"ENOLINK", syscall.ENOLINK},
	{"ENOPOLICY", syscall.ENOPOLICY},
	{"ENOSR", syscall.ENOSR},
	{"ENOSTR", syscall.ENOSTR},
	{"ENOTBLK", syscall.ENOTBLK},
	{"ENOTRECOVERABLE", syscall.ENOTRECOVERABLE},
	{"EOWNERDEAD", syscall.EOWNERDEAD},
	{"EPROCLIM", syscall.EPROCLIM},
	{"EPROCUNAVAIL", syscall.EPROCUNAVAIL},
	{"EPROGMISMATCH", syscall.EPROGMISMATCH},
	{"EPROGUNAVAIL", syscall.EPROGUNAVAIL},
	{"EPWROFF", syscall.EPWROFF},
	{"ERPCMISMATCH", syscall.ERPCMISMATCH},
	{"ESHLIBVERS", syscall.ESHLIBVERS},
	{"ETIME", syscall.ETIME},
	{"ETXTBSY", syscall.ETXTBSY},
}
